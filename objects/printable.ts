/** Longer values are truncated: if a log reader truncated the line instead, it might end inside quotes. */
const LONGEST_VALUE = 2000;

/**
 * Returns a text, truncated where it is long, with everything that could end a line, move a cursor or reorder text
 * written as `\u{…}`: object names and kernel messages in a log are not ours.
 */
export function printable(text: string): string {
  return printableUpTo(text, LONGEST_VALUE);
}

/** Does the same with a given maximum length. */
export function printableUpTo(text: string, longest: number): string {
  const cut = text.length <= longest ? text : `${text.slice(0, longest)}…`;
  // Control, format (including bidirectional marks), surrogate and private characters, line and paragraph separators.
  return cut.replaceAll(/[\p{C}\p{Zl}\p{Zp}]/gu, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`);
}

/** Lists the first items in words, and how many more there are: `a, b and 3 more`. */
export function shortList<T>(all: readonly T[], most: number, textOf: (one: T) => string = String): string {
  const more = all.length - most;
  return `${all.slice(0, most).map(textOf).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}

const CLOSING: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/**
 * Returns the offset after the token or the bracketed group that begins at an offset of TypeScript source: a string, a
 * template, a comment, everything between two brackets, or one other character. Regular expressions are not recognised:
 * they must have their quotes and brackets in pairs.
 *
 * @throws Error where a string, a comment or a group does not end
 */
export function endOf(source: string, start: number): number {
  const first = source[start] ?? "";
  if (first === '"' || first === "'" || first === "`") return endOfString(source, start);
  if (source.startsWith("//", start)) return indexAfter(source, "\n", start);
  if (source.startsWith("/*", start)) return indexAfter(source, "*/", start);
  const closing = CLOSING[first];
  return closing === undefined ? start + 1 : endOfGroup(source, start + 1, closing);
}

/** Returns the parts of source between separators that are outside of strings and brackets, without comments. */
export function splitSource(source: string, separator: RegExp): readonly string[] {
  const parts = [""];
  for (let at = 0; at < source.length;) {
    separator.lastIndex = at;
    const found = separator.exec(source)?.[0];
    const end = found === undefined ? endOf(source, at) : at + found.length;
    const token = source.slice(at, end);
    if (found !== undefined) parts.push("");
    else if (!/^\/[/*]/.test(token)) parts.push((parts.pop() ?? "") + token);
    at = end;
  }
  return parts.map((part) => part.trim());
}

/** Returns the items of the list in brackets that begins at an offset: arguments, elements or members. */
export function itemsOf(source: string, open: number): readonly string[] {
  const inside = source.slice(open + 1, endOf(source, open) - 1);
  return splitSource(inside, /,/y).filter((item) => item !== "");
}

/** Returns the expression that begins at an offset, up to the semicolon that ends its statement. */
export function statementAt(source: string, start: number): string {
  let end = start;
  while (end < source.length && source[end] !== ";") end = endOf(source, end);
  return source.slice(start, end).trim();
}

function endOfString(source: string, start: number): number {
  const quote = source[start];
  for (let at = start + 1; at < source.length; at++) {
    if (source[at] === quote) return at + 1;
    if (source[at] === "\\") at++;
    else if (quote === "`" && source.startsWith("${", at)) at = endOf(source, at + 1) - 1;
  }
  throw new Error(`a string does not end: ${source.slice(start, start + 40)}`);
}

function endOfGroup(source: string, start: number, closing: string): number {
  let at = start;
  while (at < source.length && source[at] !== closing) at = endOf(source, at);
  if (at >= source.length) throw new Error(`a bracket is not closed: ${source.slice(start - 1, start + 40)}`);
  return at + 1;
}

function indexAfter(source: string, text: string, start: number): number {
  const found = source.indexOf(text, start);
  return found < 0 ? source.length : found + text.length;
}

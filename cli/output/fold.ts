import { stripVTControlCharacters } from "node:util";

const NARROWEST = 20;

/**
 * Folds a line at its blanks to a width. A word that is longer stays whole.
 *
 * @param text may contain colour codes, which do not count
 * @param indent blanks before the first line
 * @param hanging blanks before the others
 */
export function foldLine(text: string, columns: number, indent = 0, hanging = indent): string {
  const width = Math.max(columns, hanging + NARROWEST);
  const lines: string[] = [];
  let line = " ".repeat(indent);
  let used = indent;
  let isEmpty = true;
  for (const word of text.split(" ")) {
    const length = stripVTControlCharacters(word).length;
    if (!isEmpty && used + 1 + length > width) {
      lines.push(line.trimEnd());
      [line, used, isEmpty] = [" ".repeat(hanging), hanging, true];
    }
    line += isEmpty ? word : ` ${word}`;
    used += length + (isEmpty ? 0 : 1);
    isEmpty = false;
  }
  lines.push(line.trimEnd());
  return `${lines.join("\n")}\n`;
}

import { markdownCode, markdownTable } from "../../output/markup.ts";
import { summaryOf } from "./page.ts";
import { changeLines, type ReportedChange, type DiffReport, type Words } from "./print.ts";
import { shortList } from "../../../policyd/log/line.ts";

/** GitHub limits comments to 65,536 characters; GitLab and others permit more. */
const MOST_CHARACTERS = 60_000;
const MOST_ROWS = 50;

/**
 * Writes the changes as Markdown for a comment on a pull request: a table, followed by the reasons.
 *
 * @param above lines of Markdown that come first
 */
export function changeMarkdown(diff: DiffReport, words: Words, above: readonly string[] = []): string {
  const shown = diff.changes.slice(0, MOST_ROWS);
  const head = [`**${summaryOf(diff)}**`, ...above].join("\n\n");
  if (shown.length === 0) return `${head}\n`;
  const table = markdownTable(
    ["", "from", "to", "connections", "pairs"],
    shown.map(({ from, to, change, pairs, of }) => [
      words[change.type],
      codes(from),
      codes(to),
      codes(change.text.split(",")) + (change.family === undefined ? "" : ` (IPv${change.family})`),
      `${pairs} of ${of}`,
    ]),
  );
  const more = diff.changes.length - shown.length;
  const rest = more === 0 ? "" : `\nand ${more} more\n`;
  let text = `${head}\n\n${table}${rest}\n<details><summary>Why</summary>\n\n`;
  const end = "\n</details>\n";
  for (const one of shown) {
    const reasons = reasonText(one, words);
    if (text.length + reasons.length + end.length > MOST_CHARACTERS) break;
    text += reasons;
  }
  return text.length > MOST_CHARACTERS
    ? `${head}\n\n${shown.length + more} changes, which are too long to be listed here.\n`
    : text + end;
}

function reasonText(one: ReportedChange, words: Words): string {
  const { word, head, lines } = changeLines(one, words);
  return [`* ${word} ${markdownCode(head)}\n`, ...lines.map((line) => `  * ${markdownCode(line)}\n`)].join("");
}

const MOST_NAMES = 8;

function codes(names: readonly string[]): string {
  return shortList(names, MOST_NAMES, markdownCode);
}

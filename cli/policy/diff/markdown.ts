import { markdownGraph } from "../../output/graph.ts";
import {
  joined,
  type Markdown,
  inMarkdown,
  markdownCode,
  markdownCodes,
  markdownTable,
  markdownWords,
} from "../../output/markup.ts";
import { summaryOf } from "./page.ts";
import { EFFECTS } from "./pair_change.ts";
import { diffGraph, type DiffReport, type ReportedChange, changeInWords } from "./print.ts";
import { type WayChange, wayInWords } from "./ways.ts";
import type { InWords } from "./witness.ts";

/** GitHub limits comments to 65,536 characters; GitLab and others permit more. */
const MOST_CHARACTERS = 60_000;
const MOST_PICTURE = 20_000;
const MOST_ROWS = 50;

/**
 * Writes the changes as Markdown for a comment on a pull request: a table and a picture, followed by the
 * reasons.
 *
 * @param above lines of Markdown that come first
 */
export function changeMarkdown(diff: DiffReport, above: readonly Markdown[] = []): Markdown {
  const head = joined([inMarkdown`**${markdownWords(summaryOf(diff))}**`, ...above], "\n\n");
  const all = [
    ...diff.changes.map((one) => ({ row: changeRow(one), words: changeInWords(one) })),
    ...diff.ways.map((way) => ({ row: wayRow(way), words: wayInWords(way) })),
  ];
  if (all.length === 0) return inMarkdown`${head}\n`;
  const some = all.slice(0, MOST_ROWS);
  const table = markdownTable(
    HEAD.map(markdownWords),
    some.map(({ row }) => row),
  );
  const more = all.length > MOST_ROWS ? inMarkdown`\nand ${all.length - MOST_ROWS} more\n` : inMarkdown``;
  const graph = markdownGraph(diffGraph(diff));
  const picture = graph.length < MOST_PICTURE ? graph : inMarkdown``;
  let text = inMarkdown`${head}\n\n${table}${more}${picture}\n<details><summary>Why</summary>\n\n`;
  const end = inMarkdown`\n</details>\n`;
  for (const reason of some.map(({ words }) => reasonText(words))) {
    if (text.length + reason.length + end.length > MOST_CHARACTERS) break;
    text = inMarkdown`${text}${reason}`;
  }
  return text.length > MOST_CHARACTERS
    ? inMarkdown`${head}\n\n${all.length} changes, which are too long to be listed here.\n`
    : inMarkdown`${text}${end}`;
}

const HEAD = ["", "from", "to", "connections", "pairs"];

function changeRow({ from, to, change, pairs, of }: ReportedChange): readonly Markdown[] {
  return [
    markdownWords(EFFECTS[change.type]),
    codes(from),
    codes(to),
    inMarkdown`${codes(change.text.split(","))}${change.family === undefined ? "" : inMarkdown` (IPv${change.family})`}`,
    inMarkdown`${pairs} of ${of}`,
  ];
}

function wayRow(way: WayChange): readonly Markdown[] {
  const { word, to, connections } = wayInWords(way);
  const judged = inMarkdown`${codes(way.connections.split(","))}${way.isPartly ? inMarkdown` (some)` : ""}`;
  return [
    markdownWords(word),
    markdownCode(way.name),
    codes(to),
    way.connections === "" ? markdownWords(connections) : judged,
    inMarkdown``,
  ];
}

function reasonText({ word, head, lines }: InWords): Markdown {
  const reasons = lines.map((line) => inMarkdown`  * ${markdownCode(line)}\n`);
  return inMarkdown`* ${markdownWords(word)} ${markdownCode(head)}\n${reasons}`;
}

const MOST_NAMES = 8;

function codes(names: readonly string[]): Markdown {
  return markdownCodes(names, MOST_NAMES);
}

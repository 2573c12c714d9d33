import { markdownGraph } from "../../output/graph.ts";
import { markdownCode, markdownTable } from "../../output/markup.ts";
import { summaryOf } from "./page.ts";
import { EFFECTS } from "./pair_change.ts";
import { changeLines, diffGraph, type ReportedChange, type DiffReport } from "./print.ts";
import type { WayChange } from "./ways/change.ts";
import { effectText, toText, wayLines } from "./ways/print.ts";
import { shortList } from "../../../objects/printable.ts";

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
export function changeMarkdown(diff: DiffReport, above: readonly string[] = []): string {
  const head = [`**${summaryOf(diff)}**`, ...above].join("\n\n");
  const [changes, ways] = [diff.changes.slice(0, MOST_ROWS), diff.ways.slice(0, MOST_ROWS)];
  const tables = [
    ...(changes.length === 0 ? [] : [changeTable(changes) + moreText(diff.changes)]),
    ...(ways.length === 0 ? [] : [wayTable(ways) + moreText(diff.ways)]),
  ];
  if (tables.length === 0) return `${head}\n`;
  const graph = markdownGraph(diffGraph(diff));
  const picture = graph.length < MOST_PICTURE ? graph : "";
  let text = `${head}\n\n${tables.join("\n")}${picture}\n<details><summary>Why</summary>\n\n`;
  const end = "\n</details>\n";
  const reasons = [...changes.map(changeLines), ...ways.map(wayLines)];
  for (const reason of reasons.map(reasonText)) {
    if (text.length + reason.length + end.length > MOST_CHARACTERS) break;
    text += reason;
  }
  return text.length > MOST_CHARACTERS
    ? `${head}\n\n${diff.changes.length + diff.ways.length} changes, which are too long to be listed here.\n`
    : text + end;
}

function changeTable(changes: readonly ReportedChange[]): string {
  return markdownTable(
    ["", "from", "to", "connections", "pairs"],
    changes.map(({ from, to, change, pairs, of }) => [
      EFFECTS[change.type],
      codes(from),
      codes(to),
      codes(change.text.split(",")) + (change.family === undefined ? "" : ` (IPv${change.family})`),
      `${pairs} of ${of}`,
    ]),
  );
}

function wayTable(ways: readonly WayChange[]): string {
  return markdownTable(
    ["", "way in", "requests", "through", "to", "connections"],
    ways.map((way) => [
      wayLines(way).word,
      markdownCode(way.name),
      codes(way.requests),
      codes(way.through === undefined ? [] : [way.through, ...way.controllers]),
      codes(toText(way)),
      way.connections === "" ? effectText(way) : codes(way.connections.split(",")) + (way.isPartly ? " (some)" : ""),
    ]),
  );
}

function moreText({ length }: readonly unknown[]): string {
  return length > MOST_ROWS ? `\nand ${length - MOST_ROWS} more\n` : "";
}

function reasonText({ word, head, lines }: ReturnType<typeof changeLines>): string {
  return [`* ${word} ${markdownCode(head)}\n`, ...lines.map((line) => `  * ${markdownCode(line)}\n`)].join("");
}

const MOST_NAMES = 8;

function codes(names: readonly string[]): string {
  return shortList(names, MOST_NAMES, markdownCode);
}

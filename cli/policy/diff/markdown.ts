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
import type { WayChange } from "./ways/change.ts";
import { wayInWords } from "./ways/print.ts";
import type { InWords } from "./witness_text.ts";

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
  const [changes, ways] = [diff.changes.slice(0, MOST_ROWS), diff.ways.slice(0, MOST_ROWS)];
  const tables = [
    ...(changes.length === 0 ? [] : [inMarkdown`${changeTable(changes)}${moreText(diff.changes)}`]),
    ...(ways.length === 0 ? [] : [inMarkdown`${wayTable(ways)}${moreText(diff.ways)}`]),
  ];
  if (tables.length === 0) return inMarkdown`${head}\n`;
  const graph = markdownGraph(diffGraph(diff));
  const picture = graph.length < MOST_PICTURE ? graph : inMarkdown``;
  let text = inMarkdown`${head}\n\n${joined(tables, "\n")}${picture}\n<details><summary>Why</summary>\n\n`;
  const end = inMarkdown`\n</details>\n`;
  const reasons = [...changes.map(changeInWords), ...ways.map(wayInWords)];
  for (const reason of reasons.map(reasonText)) {
    if (text.length + reason.length + end.length > MOST_CHARACTERS) break;
    text = inMarkdown`${text}${reason}`;
  }
  return text.length > MOST_CHARACTERS
    ? inMarkdown`${head}\n\n${diff.changes.length + diff.ways.length} changes, which are too long to be listed here.\n`
    : inMarkdown`${text}${end}`;
}

function changeTable(changes: readonly ReportedChange[]): Markdown {
  return markdownTable(
    ["", "from", "to", "connections", "pairs"].map(markdownWords),
    changes.map(({ from, to, change, pairs, of }) => [
      markdownWords(EFFECTS[change.type]),
      codes(from),
      codes(to),
      inMarkdown`${codes(change.text.split(","))}${change.family === undefined ? "" : inMarkdown` (IPv${change.family})`}`,
      inMarkdown`${pairs} of ${of}`,
    ]),
  );
}

function wayTable(ways: readonly WayChange[]): Markdown {
  return markdownTable(
    ["", "way in", "requests", "through", "to", "connections"].map(markdownWords),
    ways.map((way) => {
      const { word, to, connections } = wayInWords(way);
      return [
        markdownWords(word),
        markdownCode(way.name),
        codes(way.requests),
        codes(way.through === undefined ? [] : [way.through, ...way.controllers]),
        codes(to),
        way.connections === ""
          ? markdownWords(connections)
          : inMarkdown`${codes(way.connections.split(","))}${way.isPartly ? inMarkdown` (some)` : ""}`,
      ];
    }),
  );
}

function moreText({ length }: readonly unknown[]): Markdown {
  return length > MOST_ROWS ? inMarkdown`\nand ${length - MOST_ROWS} more\n` : inMarkdown``;
}

function reasonText({ word, head, lines }: InWords): Markdown {
  const reasons = lines.map((line) => inMarkdown`  * ${markdownCode(line)}\n`);
  return inMarkdown`* ${markdownWords(word)} ${markdownCode(head)}\n${reasons}`;
}

const MOST_NAMES = 8;

function codes(names: readonly string[]): Markdown {
  return markdownCodes(names, MOST_NAMES);
}

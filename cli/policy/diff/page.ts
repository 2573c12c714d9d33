import type { CellState, HeatCell, PageChange, PageContent } from "../../output/page/page.ts";
import { changeLines, diffGraph, type ReportedChange, type DiffReport, type Words } from "./print.ts";

/** The texts of a page besides its changes. */
export interface ChangePage {
  readonly title: string;
  readonly facts: readonly string[];
}

/** The words for changes on a page. */
const PAGE_WORDS: Words = { added: "opens", removed: "closes" };

/**
 * Returns a page about the connections that open and close.
 *
 * @param merged the changes for the list and the graph
 * @param single the same changes, each between two groups, for the cells of the heat map
 */
export function changePage({ title, facts }: ChangePage, merged: DiffReport, single: DiffReport): PageContent {
  const rows = namesOf(single.changes, ({ from }) => from);
  const columns = namesOf(single.changes, ({ to }) => to);
  const byPair = Map.groupBy(single.changes, ({ from, to }) => `${from[0]} ${to[0]}`);
  const cells = [...byPair.values()].map((changes): HeatCell => {
    const texts = changes.map((one) => changeLines(one, PAGE_WORDS));
    const [first] = changes;
    return {
      row: rows.indexOf(first?.from[0] ?? ""),
      column: columns.indexOf(first?.to[0] ?? ""),
      state: stateOf(changes),
      text: changes.map(({ change }) => `${PAGE_WORDS[change.type]} ${change.text}`).join("; "),
      why: texts
        .map(({ word, head, lines }) => [`${word} ${head}`, ...lines.map((line) => `  ${line}`)].join("\n"))
        .join("\n\n"),
    };
  });
  const present = new Set(cells.map(({ state }) => state));
  return {
    title,
    facts: [summaryOf(merged), ...facts],
    heat: { rows, columns, cells },
    legend: LEGEND.filter(([state]) => present.has(state)),
    changes: merged.changes.map((one): PageChange => {
      return { state: one.change.type === "added" ? "opens" : "closes", ...changeLines(one, PAGE_WORDS) };
    }),
    graph: diffGraph(merged),
  };
}

const LEGEND: PageContent["legend"] = [
  ["opens", "opens"],
  ["closes", "closes"],
  ["both", "both"],
];

/** Returns such as `Traffic changes: 2 entries open connections, 1 closes some.` */
export function summaryOf({ changes }: DiffReport): string {
  const opened = changes.filter(({ change }) => change.type === "added").length;
  const closed = changes.length - opened;
  if (changes.length === 0) return "No difference in what may be sent.";
  return `Traffic changes: ${opened} ${opened === 1 ? "entry opens" : "entries open"} connections, ${closed} ${closed === 1 ? "closes" : "close"} some.`;
}

function stateOf(changes: readonly ReportedChange[]): CellState {
  const types = new Set(changes.map(({ change }) => change.type));
  return types.size > 1 ? "both" : types.has("added") ? "opens" : "closes";
}

function namesOf(
  changes: readonly ReportedChange[],
  names: (one: ReportedChange) => readonly string[],
): readonly string[] {
  return [...new Set(changes.flatMap(names))].sort();
}

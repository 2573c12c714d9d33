import type { CellState, HeatCell, PageContent } from "../../output/page/page.ts";
import { type DiffReport, allInWords, noDifferenceText } from "./print.ts";
import { type ChangeType, EFFECTS } from "./pair_change.ts";
import type { WayChange } from "./ways.ts";
import type { InWords } from "./witness.ts";

/** The texts of a page besides its changes. */
export interface ChangePage {
  readonly title: string;
  readonly facts: readonly string[];
}

/**
 * Returns a page about the connections that open and close.
 *
 * @param merged the changes for the list
 * @param single the same changes, each between two groups, for the cells of the heat map
 */
export function changePage({ title, facts }: ChangePage, merged: DiffReport, single: DiffReport): PageContent {
  const cells = cellsOf(single);
  const rows = namesOf(cells.map(({ from }) => from));
  const columns = namesOf(cells.map(({ to }) => to));
  const heat = cells.map(({ from, to, ...cell }): HeatCell => {
    return { row: rows.indexOf(from), column: columns.indexOf(to), ...cell };
  });
  const present = new Set(cells.map(({ state }) => state));
  return {
    title,
    facts: [summaryOf(merged), ...facts],
    heat: { rows, columns, cells: heat },
    legend: LEGEND.filter(([state]) => present.has(state)),
    changes: allInWords(merged).map(({ type, word, head, lines }) => ({ state: EFFECTS[type], word, head, lines })),
  };
}

/** A cell with the names of its row and column. */
type NamedCell = Omit<HeatCell, "row" | "column"> & { readonly from: string; readonly to: string };

/** Returns a cell for each sender, which is a class or Gateway for ways in, and receiver. */
function cellsOf(single: DiffReport): readonly NamedCell[] {
  const pairs = allInWords(single).flatMap((one) =>
    one.from.flatMap((from) => one.to.map((to) => ({ from, to, one }))),
  );
  return [...Map.groupBy(pairs, ({ from, to }) => `${from} ${to}`).values()].map((some): NamedCell => {
    const [{ from, to } = { from: "", to: "" }] = some;
    const changes = some.map(({ one }) => one);
    return {
      from,
      to,
      state: stateOf(changes.map(({ type }) => type)),
      text: changes.map(({ word, connections }) => `${word} ${connections}`).join("; "),
      why: changes.map(whyText).join("\n\n"),
    };
  });
}

function whyText({ word, head, lines }: InWords): string {
  return [`${word} ${head}`, ...lines.map((line) => `  ${line}`)].join("\n");
}

const LEGEND: PageContent["legend"] = [
  ["opens", "opens"],
  ["closes", "closes"],
  ["both", "both"],
];

/** Returns such as `Traffic changes: 2 entries open connections, 1 closes some; of ways in 1 closes.` */
export function summaryOf({ changes, ways, hidden }: DiffReport): string {
  const parts = [
    ...(changes.length === 0 ? [] : [pairsSummary(changes.map(({ change }) => change.type))]),
    ...(ways.length === 0 ? [] : [waysSummary(ways)]),
  ];
  return parts.length === 0
    ? `${noDifferenceText({ hidden }).replace("no", "No")}.`
    : `Traffic changes: ${parts.join("; ")}.`;
}

function pairsSummary(types: readonly ChangeType[]): string {
  const opened = types.filter((type) => type === "added").length;
  const closed = types.length - opened;
  return `${opened} ${opened === 1 ? "entry opens" : "entries open"} connections, ${closed} ${closed === 1 ? "closes" : "close"} some`;
}

function waysSummary(ways: readonly WayChange[]): string {
  const changed = ways.filter(({ connections }) => connections !== "");
  const opened = changed.filter(({ type }) => type === "added").length;
  const closed = changed.length - opened;
  const others = ways.length - changed.length;
  const parts = [
    ...(opened === 0 ? [] : [`${opened} ${opened === 1 ? "opens" : "open"}`]),
    ...(closed === 0 ? [] : [`${closed} ${closed === 1 ? "closes" : "close"}`]),
    ...(others === 0 ? [] : [`${others} ${others === 1 ? "changes" : "change"} without a known effect`]),
  ];
  return `of ways in ${parts.join(", ")}`;
}

function stateOf(types: readonly ChangeType[]): CellState {
  const [first, ...others] = new Set(types);
  return others.length > 0 ? "both" : EFFECTS[first ?? "added"];
}

function namesOf(names: readonly string[]): readonly string[] {
  return [...new Set(names)].sort();
}

import { counted } from "../../output/text.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import { foldLine } from "../../output/fold.ts";
import { type Edge, type Graph, markdownGraph } from "../../output/graph.ts";
import type { Style } from "../../io.ts";
import type { OneSided } from "./end_class.ts";
import type { MergedChange } from "./merge.ts";
import { EFFECTS, type PairChange, type ChangeType } from "./pair_change.ts";
import { type WayChange, wayInWords, wayObject } from "./ways.ts";
import { type Witness, exampleText, reasonLines, type InWords } from "./witness.ts";
import type { CellState, HeatCell, PageContent } from "../../output/page/page.ts";
import {
  joined,
  type Markdown,
  inMarkdown,
  markdownCode,
  markdownCodes,
  markdownTable,
  markdownWords,
} from "../../output/markup.ts";

/** A change with its witness, either merged or between two groups. */
interface ReportedChange extends Omit<MergedChange, "example" | "isOfStandIns"> {
  readonly witness: Witness;
}

/** A diff, ready to be printed. */
export interface DiffReport {
  readonly changes: readonly ReportedChange[];
  /** The ways in by Ingresses and routes that differ. */
  readonly ways: readonly WayChange[];
  readonly appeared: OneSided;
  readonly gone: OneSided;
  /** The number of changes of pods that the options do not show. */
  readonly hidden: number;
}

/** The most names of a list that are shown to people. */
const MOST_NAMES = 8;

/** Yields the diff for people, each change with its witness. */
export function* diffText(report: DiffReport, style: Style, columns: number): Generator<string> {
  const changes = allInWords(report);
  if (changes.length === 0) yield `${noDifferenceText(report)}\n`;
  for (const { type, word, head, lines } of changes) {
    const [first = "", ...more] = lines.map(printable);
    yield foldLine(`${(type === "added" ? style.good : style.bad)(word)} ${printable(head)}`, columns, 0, 2);
    yield foldLine(first, columns, 2, 4);
    for (const line of more) yield foldLine(line, columns, 4, 6);
  }
  for (const { what, side } of [
    { what: "new", side: report.appeared },
    { what: "gone", side: report.gone },
  ]) {
    const lines = [
      ...(side.pods.length === 0 ? [] : [`${what}: ${names(side.names)} (${counted(side.pods.length, "pod")})`]),
      ...(side.nodes.length === 0
        ? []
        : [`${what}, and not compared: ${names(side.nodes.map((name) => `node/${name}`))}`]),
    ];
    for (const line of lines) yield style.faint(foldLine(printable(line), columns, 0, 2));
  }
}

/** Returns the words for a diff that shows no change. */
function noDifferenceText({ hidden }: Pick<DiffReport, "hidden">): string {
  const others = hidden === 0 ? "" : `, except for ${counted(hidden, "change")} of pods that are not shown`;
  return `no difference in what may be sent${others}`;
}

/** Returns all changes in words, those of ways in last. */
function allInWords({ changes, ways }: DiffReport): readonly InWords[] {
  return [...changes.map(changeInWords), ...ways.map(wayInWords)];
}

/** Returns a change of pairs in words. */
function changeInWords(one: ReportedChange): InWords {
  const { change, from, to, pairs, of, witness } = one;
  const connections = connectionsText(change);
  return {
    type: change.type,
    word: `${EFFECTS[change.type]}${causeText(change)}`,
    head: `${names(from)} -> ${names(to)}: ${connections}`,
    lines: [`${pairs} of ${counted(of, "pair")}, such as ${exampleText(witness)}`, ...reasonLines(witness)],
    from,
    to,
    connections,
    label: `${connections}${causeText(change)}`,
  };
}

/** Returns a note that a workload is new or gone, since then no policy need have changed. */
function causeText({ cause }: PairChange): string {
  return cause === "difference" ? "" : ` (${CAUSES[cause]} workload)`;
}

const CAUSES = { appeared: "new", gone: "removed" } as const;

function names(all: readonly string[]): string {
  return shortList(all, MOST_NAMES);
}

function connectionsText({ text, family }: PairChange): string {
  return `${text.replaceAll(",", ", ")}${family === undefined ? "" : ` (IPv${family})`}`;
}

/** Returns the object that docs/cli.md describes. */
export function diffObject({ changes, ways, appeared, gone }: DiffReport): object {
  return {
    changes: changes.map(({ from, to, change, pairs, of, witness }) => ({
      change: change.type,
      ...(change.cause === "difference" ? {} : { workload: CAUSES[change.cause] }),
      from,
      to,
      connections: change.text.split(","),
      ...(change.family === undefined ? {} : { family: `IPv${change.family}` }),
      pairs,
      of,
      witness,
    })),
    waysIn: ways.map(wayObject),
    pods: { appeared: appeared.pods, gone: gone.pods },
    nodes: { appeared: appeared.nodes, gone: gone.nodes },
  };
}

/** Returns the changes as arrows, dashed for removed connections. */
function diffGraph(report: DiffReport): Graph {
  const edges = allInWords(report).flatMap(({ type, from, to, label }): readonly Edge[] => {
    if (label === undefined) return [];
    const arrow = { label: `${type === "added" ? "+" : "-"} ${label}`, isPartly: type === "removed" };
    return from.flatMap((source) =>
      to.map((destination) => ({ from: graphName(source), to: graphName(destination), ...arrow })),
    );
  });
  return { names: [...new Set(edges.flatMap((edge) => [edge.from, edge.to]))].sort(), edges };
}

/** Returns the name in a graph, in which the part before the first "/" is the box. */
function graphName(name: string): string {
  return name.replace(/^outside /, "outside/");
}

/**
 * Returns a page about the connections that open and close.
 *
 * @param merged the changes for the list
 * @param single the same changes, each between two groups, for the cells of the heat map
 */
export function changePage(
  { title, facts }: Pick<PageContent, "title" | "facts">,
  merged: DiffReport,
  single: DiffReport,
): PageContent {
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
function summaryOf({ changes, ways, hidden }: DiffReport): string {
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

function namesOf(all: readonly string[]): readonly string[] {
  return [...new Set(all)].sort();
}

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

function codes(all: readonly string[]): Markdown {
  return markdownCodes(all, MOST_NAMES);
}

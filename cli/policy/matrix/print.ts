import type { NumberedPort } from "../../input/port_text.ts";
import { type Graph, markdownGraph } from "../../output/graph.ts";
import { formatRow, GAP, widthsOf } from "../../output/table.ts";
import { type ConnectionSet, connectionText, isEmpty } from "../connections/connection_set.ts";
import type { Connections } from "../connections/pod_connections.ts";
import { areAsked, cellRowsOf, cellsOf, type CellText, cellText, isPartly, remembered } from "./cell.ts";
import { graphName, type MatrixEnd } from "./end.ts";
import { answerFor, type Asked, type Matrix } from "./matrix.ts";
import { inMarkdown, type Markdown, markdownCode, markdownTable, markdownWords } from "../../output/markup.ts";

/** With more columns, or wider lines, the matrix becomes a list. */
export const WIDEST_GRID = 12;
const WIDEST = 120;
const CORNER = "from \\ to";

/**
 * Returns a grid for people where it fits, otherwise undefined: then `formatList` (list.ts) prints a list.
 *
 * @param columns the width of the terminal
 */
export function formatGrid(matrix: Matrix, textOf: CellText, columns: number): string | undefined {
  const { sources, destinations, between } = matrix;
  if (Math.max(sources.length, destinations.length) > WIDEST_GRID) return undefined;
  const cell = (from: MatrixEnd, to: MatrixEnd): string => (areAsked(from, to) ? textOf(between(from, to)) || "-" : "");
  const grid = sources.map((from) => [from.name, ...destinations.map((to) => cell(from, to))]);
  const rows = [[CORNER, ...destinations.map(({ name }) => name)], ...grid];
  const widths = widthsOf(rows);
  const width = widths.reduce((sum, one) => sum + one + GAP, -GAP);
  return width > Math.min(columns, WIDEST) ? undefined : rows.map((row) => formatRow(row, widths, WIDEST)).join("");
}

/**
 * Yields a list: with ports `{from, to, port, protocol, allowed}`, and `partly` where it holds only for some of several
 * pods or in one of two families; otherwise `{from, to, connections, always}`, in some and in all of these cases.
 */
export function* matrixJson(matrix: Matrix, { ports, isAllowedOnly }: Asked): Generator<string> {
  const textOf = cellText(ports);
  const columnsOf = remembered((to: readonly MatrixEnd[]) => to.map(({ name }) => `"to":${JSON.stringify(name)},`));
  const entriesOf = remembered((connections: Connections | undefined) =>
    isAllowedOnly && textOf(connections) === ""
      ? []
      : // Without the opening bracket of each.
        jsonEntries(connections, ports).map((entry) => JSON.stringify(entry).slice(1)),
  );
  let separator = "[";
  for (const { from, to, connections } of cellRowsOf(matrix)) {
    const start = `\n  {"from":${JSON.stringify(from.name)},`;
    const columns = columnsOf(to);
    // All of a source are one text: a generator's step for each entry would take longer.
    let text = "";
    for (const [i, one] of connections.entries()) {
      for (const entry of entriesOf(one)) text += `${text === "" ? separator : ","}${start}${columns[i]}${entry}`;
    }
    if (text === "") continue;
    yield text;
    separator = ",";
  }
  yield separator === "[" ? "[]\n" : "\n]\n";
}

function jsonEntries(connections: Connections | undefined, ports: readonly NumberedPort[]): readonly object[] {
  if (ports.length === 0) {
    const [some, every] = bothSets(connections);
    return [{ connections: some, always: every }];
  }
  return ports.map((port) => {
    const answer = answerFor(connections, port);
    const allowed = answer !== "no";
    return { port: port.port, protocol: port.protocol, allowed, ...(answer === "some" ? { partly: true } : {}) };
  });
}

function bothSets(connections: Connections | undefined): readonly [readonly string[], readonly string[]] {
  const texts = (set: ConnectionSet | undefined): readonly string[] =>
    set === undefined || isEmpty(set) ? [] : connectionText(set).split(",");
  return [texts(connections?.some), texts(connections?.every)];
}

/** Returns who reaches whom as arrows; a pod has none to itself. */
export function matrixGraph(matrix: Matrix, { ports }: Asked): Graph {
  const textOf = cellText(ports);
  const edges = [...cellsOf(matrix, true, textOf)].map(({ from, to, connections }) => {
    const text = textOf(connections);
    return { from: graphName(from), to: graphName(to), label: text, isPartly: isPartly(text) };
  });
  const reached = new Set(edges.flatMap(({ from, to }) => [from, to]));
  const ends = [...new Set([...matrix.sources, ...matrix.destinations])];
  // The outside and new pods appear only with their arrows.
  return { names: ends.filter((end) => end.kind === "pods" || reached.has(graphName(end))).map(graphName), edges };
}

const MOST_ROWS = 300;

/**
 * Returns a matrix as Markdown: a small one as a grid, otherwise the pairs between which something is allowed. A picture
 * follows where it is not too large.
 */
export function matrixMarkdown(matrix: Matrix, asked: Asked): Markdown {
  return matrix.groups.length === 0
    ? inMarkdown`There are no pods.\n`
    : inMarkdown`${matrixTable(matrix, asked)}${markdownGraph(matrixGraph(matrix, asked))}`;
}

function matrixTable(matrix: Matrix, { ports }: Asked): Markdown {
  const textOf = cellText(ports);
  const { sources, destinations, between } = matrix;
  const words = (text: string): Markdown => (text === "" ? inMarkdown`–` : markdownCode(text));
  if (Math.max(sources.length, destinations.length) <= WIDEST_GRID) {
    const rows = sources.map((from) => [
      markdownCode(from.name),
      ...destinations.map((to) => (areAsked(from, to) ? words(textOf(between(from, to))) : inMarkdown``)),
    ]);
    return markdownTable([inMarkdown`from \\ to`, ...destinations.map(({ name }) => markdownCode(name))], rows);
  }
  const open = [...cellsOf(matrix, true, textOf)];
  const rows = open
    .slice(0, MOST_ROWS)
    .map(({ from, to, connections }) => [markdownCode(from.name), markdownCode(to.name), words(textOf(connections))]);
  const more = open.length > MOST_ROWS ? inMarkdown`\nand ${open.length - MOST_ROWS} more pairs\n` : inMarkdown``;
  return inMarkdown`${markdownTable(["from", "to", "connections"].map(markdownWords), rows)}${more}`;
}

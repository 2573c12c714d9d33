import { csvLine } from "../../output/csv.ts";
import type { Graph } from "../../output/graph.ts";
import { formatRow, GAP, restOfRow, startOfRow, widthsOf } from "../../output/table.ts";
import type { ConnectionSet } from "../connections/connection_set.ts";
import { connectionText, isEmpty } from "../connections/connection_set.ts";
import type { Connections } from "../connections/pod_connections.ts";
import type { CellText } from "./cell.ts";
import { cellsOf, cellText, isPartly } from "./cell.ts";
import type { Matrix, PortQuestion } from "./matrix.ts";
import { answerFor } from "./matrix.ts";

/** More columns than this, or a wider line, are a list. */
const WIDEST_GRID = 12;
const WIDEST = 120;
const CORNER = "from \\ to";

/**
 * For people: a grid where it fits, else undefined; then {@link formatList} is for them.
 *
 * @param columns of the screen
 */
export function formatGrid({ groups, between }: Matrix, textOf: CellText, columns: number): string | undefined {
  if (groups.length > WIDEST_GRID) return undefined;
  const grid = groups.map((from) => [from.name, ...groups.map((to) => textOf(between(from, to)) || "-")]);
  const rows = [[CORNER, ...groups.map(({ name }) => name)], ...grid];
  const widths = widthsOf(rows);
  const width = widths.reduce((sum, one) => sum + one + GAP, -GAP);
  return width > Math.min(columns, WIDEST) ? undefined : rows.map((row) => formatRow(row, widths, WIDEST)).join("");
}

/** Every pair in a line of its own. */
export function* matrixWide(matrix: Matrix, ports: readonly PortQuestion[], columns: number): Generator<string> {
  const textOf = cellText(ports);
  const head = ["FROM", "TO", "CONNECTIONS"];
  const widths = widthsOf([head, ...matrix.groups.map(({ name }) => [name, name])]);
  yield formatRow(head, widths, columns);
  const rest = new Map<string, string>();
  for (const { from, to, connections } of cellsOf(matrix)) {
    const text = textOf(connections) || "none";
    const start = startOfRow([from.name, to.name], widths);
    let last = rest.get(text);
    if (last === undefined) rest.set(text, (last = restOfRow(text, start, columns)));
    yield `${start}${last}`;
  }
}

/** `from,to,port,protocol,allowed`, without ports asked about `from,to,connections,always`. */
export function* matrixCsv(matrix: Matrix, ports: readonly PortQuestion[]): Generator<string> {
  yield csvLine(["from", "to", ...(ports.length === 0 ? ["connections", "always"] : ["port", "protocol", "allowed"])]);
  for (const { from, to, connections } of cellsOf(matrix)) {
    const names = [from.name, to.name];
    if (ports.length === 0)
      yield csvLine([...names, ...bothSets(connections).map((texts) => texts.join(",") || "none")]);
    for (const port of ports) yield csvLine([...names, port.port, port.protocol, answerFor(connections, port)]);
  }
}

/**
 * A list. With ports `{from, to, port, protocol, allowed}`, and `partly` where it is so for some of several pods alone or in
 * one of two families; else `{from, to, connections, always}`: in at least one of these cases and in every one.
 */
export function* matrixJson(matrix: Matrix, ports: readonly PortQuestion[]): Generator<string> {
  const names = new Map(matrix.groups.map((group) => [group, JSON.stringify(group.name)]));
  const known = new Map<Connections | undefined, readonly string[]>();
  const membersOf = (connections: Connections | undefined): readonly string[] => {
    let members = known.get(connections);
    if (members === undefined) {
      // Without the bracket that opens each.
      members = jsonEntries(connections, ports).map((entry) => JSON.stringify(entry).slice(1));
      known.set(connections, members);
    }
    return members;
  };
  let separator = "[\n";
  for (const { from, to, connections } of cellsOf(matrix)) {
    for (const members of membersOf(connections)) {
      yield `${separator}  {"from":${names.get(from) ?? ""},"to":${names.get(to) ?? ""},${members}`;
      separator = ",\n";
    }
  }
  yield separator === "[\n" ? "[]\n" : "\n]\n";
}

function jsonEntries(connections: Connections | undefined, ports: readonly PortQuestion[]): readonly object[] {
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

/** Who reaches whom, as arrows; a pod and itself has none. */
export function matrixGraph(matrix: Matrix, ports: readonly PortQuestion[]): Graph {
  const textOf = cellText(ports);
  const edges = [...cellsOf(matrix)].flatMap(({ from, to, connections }) => {
    const text = textOf(connections);
    if (text === "" || (from === to && from.pods.length === 1)) return [];
    return [{ from: from.name, to: to.name, label: text, isPartly: isPartly(text) }];
  });
  return { names: matrix.groups.map(({ name }) => name), edges };
}

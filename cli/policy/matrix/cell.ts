import type { Group } from "../../cluster/group.ts";
import { connectionText, isEmpty } from "../connections/connection_set.ts";
import type { Connections } from "../connections/pod_connections.ts";
import type { Matrix, PortQuestion } from "./matrix.ts";
import { answerFor } from "./matrix.ts";

/** What one group may send to another. */
export interface Cell {
  readonly from: Group;
  readonly to: Group;
  readonly connections: Connections | undefined;
}

/** What a cell says in words; empty for nothing. */
export type CellText = (connections: Connections | undefined) => string;

const SOME = " (some)";

/** All of them, row by row. */
export function* cellsOf(matrix: Matrix): Generator<Cell> {
  for (const from of matrix.groups) {
    for (const to of matrix.groups) yield { from, to, connections: matrix.between(from, to) };
  }
}

/**
 * The words for the connections, or without them for those of the ports asked about: `(some)` for what is allowed between
 * some of several pods, or in one family of two.
 */
export function cellText(ports: readonly PortQuestion[]): CellText {
  const known = new Map<Connections | undefined, string>();
  return (connections) => {
    const before = known.get(connections);
    if (before !== undefined) return before;
    const text = ports.length > 0 ? portsText(connections, ports) : connectionsText(connections);
    known.set(connections, text);
    return text;
  };
}

/** Whether it is so for some of several cases alone. */
export function isPartly(text: string): boolean {
  return text.includes(SOME);
}

function portsText(connections: Connections | undefined, ports: readonly PortQuestion[]): string {
  const answers = ports.map((port) => ({ ...port, answer: answerFor(connections, port) }));
  const told = answers.filter(({ answer }) => answer !== "no");
  return told.map(({ port, protocol, answer }) => `${port}/${protocol}${answer === "some" ? SOME : ""}`).join(", ");
}

function connectionsText(connections: Connections | undefined): string {
  if (connections === undefined || isEmpty(connections.some)) return "";
  const text = connectionText(connections.some).replaceAll(",", ", ");
  return connections.some === connections.every ? text : `${text}${SOME}`;
}

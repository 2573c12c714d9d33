import { connectionText, isEmpty } from "../connections/connection_set.ts";
import type { Connections } from "../connections/pod_connections.ts";
import type { MatrixEnd } from "./end.ts";
import type { Matrix, PortQuestion } from "./matrix.ts";
import { answerFor } from "./matrix.ts";

/** The connections from one end to another. */
export interface Cell {
  readonly from: MatrixEnd;
  readonly to: MatrixEnd;
  readonly connections: Connections | undefined;
}

/** A cell in words; empty for nothing. */
export type CellText = (connections: Connections | undefined) => string;

const SOME = " (some)";

/** Whether one of two ends is pods that exist: nothing else is asked about. */
export function areAsked(from: MatrixEnd, to: MatrixEnd): boolean {
  return from.kind === "pods" || to.kind === "pods";
}

/**
 * All of them, row by row; nothing goes from outside to outside by way of a policy.
 *
 * @param isAllowedOnly whether those between which nothing may be sent are left out
 */
export function* cellsOf(matrix: Matrix, isAllowedOnly: boolean, textOf: CellText): Generator<Cell> {
  for (const from of matrix.sources) {
    for (const to of matrix.destinations) {
      if (!areAsked(from, to)) continue;
      const connections = matrix.between(from, to);
      if (!isAllowedOnly || textOf(connections) !== "") yield { from, to, connections };
    }
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

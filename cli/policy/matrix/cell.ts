import type { NumberedPort } from "../../input/port_text.ts";
import { connectionText, isEmpty } from "../connections/connection_set.ts";
import type { Connections } from "../connections/pod_connections.ts";
import { isMain, type MatrixEnd } from "./end.ts";
import { answerFor, type Matrix } from "./matrix.ts";

/** The connections from one end to another. */
export interface Cell {
  readonly from: MatrixEnd;
  readonly to: MatrixEnd;
  readonly connections: Connections | undefined;
}

/** The connections from one end to others. A matrix may have millions of cells, too many for an object each. */
export interface CellRow {
  readonly from: MatrixEnd;
  /** The same array for many rows. */
  readonly to: readonly MatrixEnd[];
  /** In the order of {@link to}. */
  readonly connections: readonly (Connections | undefined)[];
}

/** Returns the text of a cell; empty for nothing. */
export type CellText = (connections: Connections | undefined) => string;

const SOME = " (some)";

/** Returns whether a pair of ends is of interest: one of them is, as {@link isMain} says, and they are not one pod. */
export function areAsked(from: MatrixEnd, to: MatrixEnd): boolean {
  const isSelf = from.pods.length === 1 && to.pods.length === 1 && from.pods[0] === to.pods[0];
  return !isSelf && (isMain(from) || isMain(to));
}

/** Yields the cells of each source, except those without pods that are asked about at either end. */
export function* cellRowsOf(matrix: Matrix): Generator<CellRow> {
  const existing = matrix.destinations.filter(isMain);
  for (const from of matrix.sources) {
    const to = isMain(from) ? matrix.destinations : existing;
    yield { from, to, connections: to.map((end) => matrix.between(from, end)) };
  }
}

/**
 * Yields the same cells one by one, without those of a pod with itself.
 *
 * @param isAllowedOnly whether to omit pairs between which nothing may be sent
 */
export function* cellsOf(matrix: Matrix, isAllowedOnly: boolean, textOf: CellText): Generator<Cell> {
  for (const { from, to, connections: row } of cellRowsOf(matrix)) {
    for (const [i, connections] of row.entries()) {
      const end = to[i];
      if (end === undefined || !areAsked(from, end)) continue;
      if (!isAllowedOnly || textOf(connections) !== "") yield { from, to: end, connections };
    }
  }
}

/**
 * Returns the text for connections, reduced to the ports in question if there are any. `(some)` marks what is allowed
 * only between some of several pods, or in one of two families.
 */
export function cellText(ports: readonly NumberedPort[]): CellText {
  return remembered((connections) => (ports.length > 0 ? portsText(connections, ports) : connectionsText(connections)));
}

/** Returns the same function, which computes its result once for each argument. */
export function remembered<A, R extends {}>(compute: (argument: A) => R): (argument: A) => R {
  const results = new Map<A, R>();
  return (argument) => {
    let result = results.get(argument);
    if (result === undefined) results.set(argument, (result = compute(argument)));
    return result;
  };
}

/** Returns whether a text says that it holds only in some of several cases. */
export function isPartly(text: string): boolean {
  return text.includes(SOME);
}

function portsText(connections: Connections | undefined, ports: readonly NumberedPort[]): string {
  const answers = ports.map((port) => ({ ...port, answer: answerFor(connections, port) }));
  const reported = answers.filter(({ answer }) => answer !== "no");
  return reported.map(({ port, protocol, answer }) => `${port}/${protocol}${answer === "some" ? SOME : ""}`).join(", ");
}

function connectionsText(connections: Connections | undefined): string {
  if (connections === undefined || isEmpty(connections.some)) return "";
  const text = connectionText(connections.some).replaceAll(",", ", ");
  return connections.some === connections.every ? text : `${text}${SOME}`;
}

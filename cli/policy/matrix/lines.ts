import type { Connections } from "../connections/pod_connections.ts";
import { cellRowsOf, cellText } from "./cell.ts";
import type { MatrixEnd } from "./end.ts";
import type { Asked, Matrix } from "./matrix.ts";

/** The lines of a cell: each consists of a text for the source, one for the destination, and a rest. */
export interface LineForm {
  readonly startOf: (from: MatrixEnd) => string;
  readonly columnOf: (to: MatrixEnd) => string;
  /** Returns the rest of each line. */
  readonly restsOf: (connections: Connections | undefined) => readonly string[];
}

/** Yields the lines of a matrix, all of a source in one text: a generator's step for each line would take longer. */
export function* linesOf(matrix: Matrix, { ports, isAllowedOnly }: Asked, form: LineForm): Generator<string> {
  const textOf = cellText(ports);
  const columnsOf = remembered((to: readonly MatrixEnd[]) => to.map(form.columnOf));
  const restsOf = remembered((connections: Connections | undefined) =>
    isAllowedOnly && textOf(connections) === "" ? [] : form.restsOf(connections),
  );
  for (const { from, to, connections } of cellRowsOf(matrix)) {
    const start = form.startOf(from);
    const columns = columnsOf(to);
    let text = "";
    for (const [i, one] of connections.entries()) {
      for (const rest of restsOf(one)) text += `${start}${columns[i]}${rest}`;
    }
    if (text !== "") yield text;
  }
}

/** Returns the same function, which computes its result once for each argument. */
function remembered<A, R extends {}>(compute: (argument: A) => R): (argument: A) => R {
  const results = new Map<A, R>();
  return (argument) => {
    let result = results.get(argument);
    if (result === undefined) results.set(argument, (result = compute(argument)));
    return result;
  };
}

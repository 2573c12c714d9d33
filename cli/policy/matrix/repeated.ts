import type { MatrixEnd } from "./end.ts";
import type { Matrix } from "./matrix.ts";
import type { NewPods } from "./new_pods.ts";

/** Returns a matrix without new pods whose labels change nothing compared with one without labels. */
export function withoutRepeated(matrix: Matrix, { plain }: NewPods): Matrix {
  const ends = [...new Set([...matrix.sources, ...matrix.destinations])];
  const byKey = new Map(
    ends.flatMap((end) => (end.kind === "new pod" ? end.pods.map(({ key }) => [key, end] as const) : [])),
  );
  const isRepeated = (end: MatrixEnd): boolean => {
    const [pod] = end.pods;
    const other = end.kind !== "new pod" || pod === undefined ? undefined : byKey.get(plain.get(pod.key) ?? "");
    if (other === undefined) return false;
    const areAlike = (pairs: readonly MatrixEnd[], between: (one: MatrixEnd, end: MatrixEnd) => unknown): boolean =>
      pairs.every((one) => one.kind !== "pods" || between(one, end) === between(one, other));
    const isSource = matrix.sources.includes(end);
    const isDestination = matrix.destinations.includes(end);
    return (
      (!isSource || areAlike(matrix.destinations, (one, from) => matrix.between(from, one))) &&
      (!isDestination || areAlike(matrix.sources, (one, to) => matrix.between(one, to)))
    );
  };
  const repeated = new Set(ends.filter(isRepeated));
  return {
    ...matrix,
    sources: matrix.sources.filter((end) => !repeated.has(end)),
    destinations: matrix.destinations.filter((end) => !repeated.has(end)),
  };
}

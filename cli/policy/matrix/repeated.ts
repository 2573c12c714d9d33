import { isWithin } from "../diff/told_changes.ts";
import type { NewPods } from "../question_ends.ts";
import { NEW_NAMESPACE } from "../stand_ins.ts";
import type { MatrixEnd } from "./end.ts";
import type { Matrix } from "./matrix.ts";

/**
 * Returns a matrix without new pods that say nothing more: one with labels that is as an existing pod, or as a new pod
 * with fewer labels in the same namespace, or in other new ones.
 */
export function withoutRepeated(matrix: Matrix, { labels }: NewPods): Matrix {
  const ends = [...new Set([...matrix.sources, ...matrix.destinations])];
  const { sources, destinations, between } = matrix;
  // Between two new pods of one question each is beside the other.
  const areCompared = (end: MatrixEnd, far: MatrixEnd): boolean =>
    far.kind === "pods" || (end.isAsked === true && far.kind !== "new pod");
  const isAlike = (end: MatrixEnd, other: MatrixEnd): boolean =>
    (!sources.includes(end) ||
      destinations.every((to) => !areCompared(end, to) || between(end, to) === between(other, to))) &&
    (!destinations.includes(end) ||
      sources.every((from) => !areCompared(end, from) || between(from, end) === between(from, other)));
  const isNewPlace = (end: MatrixEnd): boolean => end.pods.some(({ namespace }) => namespace.startsWith(NEW_NAMESPACE));
  const isFewer = (one: MatrixEnd, than: MatrixEnd): boolean => {
    const [[less], [more]] = [one.pods, than.pods];
    if (one === than || less === undefined || more === undefined) return false;
    if (one.kind === "pods") return true;
    const isBeside = less.namespace === more.namespace || (isNewPlace(one) && isNewPlace(than));
    return isBeside && isWithin(labels.get(less.key) ?? {}, labels.get(more.key) ?? {});
  };
  const isRepeated = (end: MatrixEnd): boolean =>
    end.kind === "new pod" &&
    end.pods.some(({ key }) => Object.keys(labels.get(key) ?? {}).length > 0) &&
    ends.some((other) => ["pods", "new pod"].includes(other.kind) && isFewer(other, end) && isAlike(end, other));
  const kept = new Set(ends.filter((end) => !isRepeated(end)));
  return {
    ...matrix,
    sources: sources.filter((end) => kept.has(end)),
    destinations: destinations.filter((end) => kept.has(end)),
  };
}

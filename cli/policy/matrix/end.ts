import type { Pod } from "../../../policyd/cluster/model.ts";
import { groupName } from "../../cluster/group.ts";
import { regionText } from "../outside_region.ts";
import type { OutsideRegion } from "../outside_region.ts";
import type { WayInGroup } from "./way_in_end.ts";

/** A row or a column of a matrix. */
export interface MatrixEnd {
  /** Of pods the name of their group; else as {@link outsideEnd}, the names of new pods and those of ways in. */
  readonly name: string;
  readonly kind: "pods" | "outside" | "new pod" | "way in";
  /** Empty for the outside and ways in. */
  readonly pods: readonly Pod[];
  /** Only of the outside. */
  readonly region: OutsideRegion | undefined;
  /** Only of a way in. */
  readonly wayIn?: WayInGroup;
}

export const OUTSIDE = "outside";
export const NEW_PODS = "any new pod";

/** A part of the outside: `outside 10.0.0.0/8 except 10.1.0.0/16`. */
export function outsideEnd(region: OutsideRegion): MatrixEnd {
  return { name: `${OUTSIDE} ${regionText(region)}`, kind: "outside", pods: [], region };
}

/** The names for several ends: all of a workload, a namespace or a family of the outside have one. */
export class EndNames {
  readonly #pods: number;
  readonly #wholes = new Map<string, number>();

  /** @param ends all there are */
  constructor(ends: readonly MatrixEnd[]) {
    this.#pods = ends.filter(({ kind }) => kind === "pods").length;
    for (const whole of ends.flatMap(wholesOf)) this.#wholes.set(whole, (this.#wholes.get(whole) ?? 0) + 1);
  }

  of(ends: readonly MatrixEnd[]): readonly string[] {
    const present = Map.groupBy(ends.flatMap(wholesOf), (whole) => whole);
    const areAllPods = this.#pods > 1 && ends.filter(({ kind }) => kind === "pods").length === this.#pods;
    const isWhole = (whole: string): boolean => {
      const count = present.get(whole)?.length ?? 0;
      return (count > 1 || whole.startsWith(`${OUTSIDE} `)) && count === this.#wholes.get(whole);
    };
    const names = ends.map((end) => {
      if (areAllPods && end.kind === "pods") return "all pods";
      return wholesOf(end).find(isWhole) ?? end.name;
    });
    return [...new Set(names)].toSorted(byKind);
  }
}

/** The name in a graph, where what comes before the first "/" is the box. */
export function graphName({ name, kind }: MatrixEnd): string {
  if (kind === "pods") return name;
  return kind === "outside" || kind === "way in" ? name.replace(`${OUTSIDE} `, `${OUTSIDE}/`) : `new pods/${name}`;
}

/** The names of the wholes that an end is a part of, the largest first. */
function wholesOf({ name, kind, pods: [pod], region }: MatrixEnd): readonly string[] {
  if (region !== undefined) return [OUTSIDE, `${OUTSIDE} IPv${region.family}`];
  if (kind === "new pod") return [NEW_PODS];
  if (kind === "way in") return [];
  if (pod === undefined) return [];
  const workload = groupName(pod, "workload");
  return workload === name ? [`${pod.namespace}/*`] : [`${pod.namespace}/*`, workload];
}

/** Pods first, then the outside, then pods that do not exist yet. */
function byKind(a: string, b: string): number {
  const [first, second] = [placeOf(a), placeOf(b)];
  if (first !== second) return first - second;
  return a < b ? -1 : a > b ? 1 : 0;
}

function placeOf(name: string): number {
  if (name === OUTSIDE || name.startsWith(`${OUTSIDE} `)) return 1;
  return name === NEW_PODS || name.startsWith("new pod ") ? 2 : 0;
}

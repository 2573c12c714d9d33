import type { Pod } from "../../../objects/model.ts";
import { compareTexts } from "../../output/text.ts";
import { NEW_PODS } from "../../cluster/end_name.ts";
import { groupName } from "../../cluster/group.ts";
import { jointNames } from "../joint_names.ts";
import { type OutsideRegion, regionText } from "../outside_region.ts";
import type { WayInGroup } from "./way_in_end.ts";

/** A row or a column of a matrix. */
export interface MatrixEnd {
  /** The name of a group of pods; otherwise as in {@link outsideEnd}, a domain name, the name of a new pod or of a way in. */
  readonly name: string;
  readonly kind: "pods" | "other pods" | "outside" | "new pod" | "way in";
  /** Empty for the outside and for ways in. */
  readonly pods: readonly Pod[];
  /** Only for the outside: one, or for a domain name all in which it may be. */
  readonly regions: readonly OutsideRegion[];
  /** For a new pod, whether the question is about new pods. */
  readonly isAsked?: boolean;
  /** Only for a way in. */
  readonly wayIn?: WayInGroup;
}

/** Returns whether all pairs with an end are of interest; of other ends only those with such an end. */
export function isMain({ kind, isAsked }: MatrixEnd): boolean {
  return kind === "pods" || isAsked === true;
}

export const OUTSIDE = "outside";

/** Returns a part of the outside, with a name such as `outside 10.0.0.0/8 except 10.1.0.0/16`. */
export function outsideEnd(region: OutsideRegion): MatrixEnd {
  return { name: `${OUTSIDE} ${regionText(region)}`, kind: "outside", pods: [], regions: [region] };
}

/** Returns the servers outside that pods know by a domain name. */
export function domainNameEnd(name: string, regions: readonly OutsideRegion[]): MatrixEnd {
  return { name, kind: "outside", pods: [], regions };
}

/**
 * Returns a function that names some of all existing ends as {@link jointNames} does, in the order of a list: pods, then
 * the outside, then pods that do not exist yet.
 */
export function endNames(all: readonly MatrixEnd[]): (ends: readonly MatrixEnd[]) => readonly string[] {
  const isPart = all.some(({ kind }) => kind === "other pods");
  const namesOf = jointNames(all, (end: MatrixEnd) => [
    ...(end.kind === "pods" && !isPart ? ["all pods"] : []),
    ...wholesOf(end),
  ]);
  return (ends) => [...new Set(namesOf(ends))].toSorted(byKind);
}

/** Returns the name in a graph, in which the part before the first "/" is the box. */
export function graphName({ name, kind }: MatrixEnd): string {
  if (kind === "pods" || kind === "other pods") return name;
  return kind === "outside" || kind === "way in" ? `${OUTSIDE}/${name.replace(`${OUTSIDE} `, "")}` : `new pods/${name}`;
}

/** Returns the names of the larger units that contain an end, the largest first. */
function wholesOf({ name, kind, pods: [pod], regions: [region] }: MatrixEnd): readonly string[] {
  if (region !== undefined) return region.asked === undefined ? [OUTSIDE, `${OUTSIDE} IPv${region.family}`] : [];
  if (kind === "new pod") return [NEW_PODS];
  if (kind === "way in") return [];
  if (pod === undefined) return [];
  const workload = groupName(pod, "workload");
  return workload === name ? [`${pod.namespace}/*`] : [`${pod.namespace}/*`, workload];
}

function byKind(a: string, b: string): number {
  const [first, second] = [placeOf(a), placeOf(b)];
  return first - second || compareTexts(a, b);
}

function placeOf(name: string): number {
  if (name === OUTSIDE || name.startsWith(`${OUTSIDE} `)) return 1;
  return name === NEW_PODS || name.startsWith("new pod ") ? 2 : 0;
}

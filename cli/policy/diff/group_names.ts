import { jointNames } from "../joint_names.ts";
import type { EndGroup } from "./end_class.ts";

/** The names of the larger units of a group. */
const UNITS: Readonly<Record<EndGroup["kind"], (whole: string) => readonly string[]>> = {
  pods: (whole) => ["all pods", `${whole}/*`],
  "new pods": (whole) => ["any new pod", `any new pod in ${whole}`],
  nodes: () => ["all nodes"],
  outside: (whole) => ["outside", whole],
  "domain names": (whole) => ["all domain names", whole],
};

/** Names some groups in the order of their names. */
export type GroupNames = (some: ReadonlySet<EndGroup>) => readonly string[];

/** Returns the function that names some of all existing groups as {@link jointNames} does. */
export function groupNames(all: readonly EndGroup[]): GroupNames {
  const namesOf = jointNames(all, ({ kind, whole }: EndGroup) => UNITS[kind](whole));
  return (some) => namesOf(some).toSorted();
}

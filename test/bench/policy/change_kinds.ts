import type { ObjectChange } from "../../../policyd/objects/object_source.ts";
import {
  type BenchPod,
  type BenchPolicy,
  benchPolicy,
  changeTo,
  NAMESPACES,
  pertinentPod,
  podManifest,
  policyManifest,
  relabelled,
  removalOf,
} from "./cluster.ts";

/** A change of one thing among many, as an event. */
export interface ChangeKind {
  readonly name: string;
  readonly isOfPod: boolean;
  readonly change: (number: number) => ObjectChange;
}

const FIRST_NEW_POD = 20_000;

/**
 * The kinds, to be made in this order for one number after the other: later ones change and remove what earlier ones
 * added.
 */
export const CHANGE_KINDS: readonly ChangeKind[] = [
  {
    name: "a pod added elsewhere",
    isOfPod: true,
    change: (number) => changeTo(podManifest(newPod(number))),
  },
  {
    name: "a pod relabelled elsewhere",
    isOfPod: true,
    change: (number) => changeTo(podManifest(relabelled(newPod(number)))),
  },
  {
    name: "a pod removed elsewhere",
    isOfPod: true,
    change: (number) => removalOf(newPod(number)),
  },
  {
    name: "a policy more on a local pod",
    isOfPod: false,
    change: (number) => changeTo(policyManifest(extraPolicy(number))),
  },
  {
    name: "a policy less on a local pod",
    isOfPod: false,
    change: (number) => removalOf(extraPolicy(number), "NetworkPolicy"),
  },
];

/** Returns a new pod, of another namespace for each number. */
function newPod(number: number): BenchPod {
  return pertinentPod(FIRST_NEW_POD + number);
}

/** Returns a second policy for the first pod of a namespace, with selectors of its own. */
function extraPolicy(number: number): BenchPolicy {
  return { ...benchPolicy(number % NAMESPACES), name: `extra-${number}`, near: { tier: `t${(number + 1) % 5}` } };
}

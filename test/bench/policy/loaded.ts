import type { Lab } from "../../lab/lab.ts";
import { sleep } from "../sleep.ts";
import {
  attachmentOf,
  baseManifests,
  benchPods,
  benchPolicies,
  changeTo,
  type ClusterSize,
  policyManifest,
} from "./cluster.ts";
import { Ours } from "./ours.ts";

/** Our policies on a node of their own with a cluster; disposing of them removes the node. */
export interface Loaded extends Disposable {
  readonly contestant: Ours;
}

/** A pause after the kernel's answer, in which it frees a ruleset of thousands of chains. */
const SETTLE_MILLISECONDS = 300;
let count = 0;

/** Builds our layout on a fresh node. */
export async function loadOurs(lab: Lab, size: ClusterSize): Promise<Loaded> {
  const namespace = lab.namespace(`ours-${count++}`);
  const changes = [...baseManifests(size), ...benchPolicies(size).map(policyManifest)].map(changeTo);
  const attachments = benchPods(size)
    .filter(({ isLocal }) => isLocal)
    .map(attachmentOf);
  const contestant = new Ours(namespace);
  await contestant.load(changes, attachments);
  const dispose = (): void => {
    contestant[Symbol.dispose]();
    lab.remove(namespace);
    sleep(SETTLE_MILLISECONDS);
  };
  return { contestant, [Symbol.dispose]: dispose };
}

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
import { KubeRouter } from "./kube_router.ts";
import { NftProgram, type Spent } from "./nft_program.ts";
import { Obvious } from "./obvious.ts";
import { Ours } from "./ours.ts";

/** A contestant on a node of its own with a cluster, and the time of its build; disposing of it removes the node. */
export interface Loaded<T> extends Disposable {
  readonly contestant: T;
  readonly built: Spent & { readonly inKernel?: number };
}

/** The layouts that ours is compared with. */
export const PEERS = ["the obvious layout", "kube-router's layout"] as const;
export type PeerName = (typeof PEERS)[number];

/** A pause after the kernel's answer, in which it frees a ruleset of thousands of chains. */
const SETTLE_MILLISECONDS = 300;
let count = 0;

/** Builds our layout on a fresh node: from the objects' arrival to the kernel's last answer. */
export async function loadOurs(lab: Lab, size: ClusterSize): Promise<Loaded<Ours>> {
  const namespace = lab.namespace(`ours-${count++}`);
  const changes = [...baseManifests(size), ...benchPolicies(size).map(policyManifest)].map(changeTo);
  const attachments = benchPods(size)
    .filter(({ isLocal }) => isLocal)
    .map(attachmentOf);
  const contestant = new Ours(namespace);
  const built = await contestant.load(changes, attachments);
  const dispose = (): void => {
    contestant[Symbol.dispose]();
    lab.remove(namespace);
    sleep(SETTLE_MILLISECONDS);
  };
  return { contestant, built, [Symbol.dispose]: dispose };
}

/** Builds another layout on a fresh node, and measures nft with its text. */
export function loadPeer(lab: Lab, name: PeerName, size: ClusterSize): Loaded<Obvious | KubeRouter> {
  const namespace = lab.namespace(`peer-${count++}`);
  const nft = new NftProgram(namespace, lab.scratch);
  const contestant =
    name === "the obvious layout"
      ? new Obvious(nft, benchPods(size), benchPolicies(size))
      : new KubeRouter(nft, benchPods(size), benchPolicies(size));
  const built = contestant.build();
  const dispose = (): void => {
    lab.remove(namespace);
    sleep(SETTLE_MILLISECONDS);
  };
  return { contestant, built, [Symbol.dispose]: dispose };
}

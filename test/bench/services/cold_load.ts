import { compared, type ComparedGoal, interleave, type Row } from "../row.ts";
import type { Pair } from "../statistics.ts";
import { type ClusterSize, sizeText } from "./cluster.ts";
import { PEER } from "./kube_proxy_layout.ts";
import type { Load } from "./peer.ts";
import type { Stage } from "./stage.ts";

/**
 * Compares loads from nothing: ours from the objects to the kernel's answer, the other's from its text to nft's end.
 */
export function coldLoad(stage: Stage, size: ClusterSize, rounds: number, goal?: ComparedGoal): readonly Row[] {
  const title = `cold load, ${sizeText(size)}`;
  const taken = interleave<Load>(
    rounds,
    () => stage.loadOurs(size),
    () => stage.loadPeer(size),
  );
  const pairs = (of: keyof Load): readonly Pair[] =>
    taken.map(({ ours, peer }) => ({ ours: ours[of], peer: peer[of] }));
  return [
    compared(title, "ms", PEER, pairs("whole"), goal),
    compared(`${title}: processor time`, "ms", PEER, pairs("processor")),
  ];
}

import { compared, type ComparedGoal, interleave, type Row } from "../row.ts";
import type { Pair } from "../statistics.ts";
import { type ClusterSize, sizeText } from "./cluster.ts";
import { type Layout, layoutNames } from "./kube_proxy_layout.ts";
import type { Load } from "./peer.ts";
import type { Stage } from "./stage.ts";

/**
 * Compares loads from nothing: ours from the objects to the kernel's answer, the other's from its text to nft's end.
 */
export function coldLoad(
  stage: Stage,
  size: ClusterSize,
  layout: Layout,
  rounds: number,
  goal?: ComparedGoal,
): readonly Row[] {
  const title = `cold load, ${sizeText(size)}`;
  const against = layoutNames[layout];
  const taken = interleave<Load>(
    rounds,
    () => stage.loadOurs(size),
    () => stage.loadPeer(layout, size),
  );
  const pairs = (of: keyof Load): readonly Pair[] =>
    taken.map(({ ours, peer }) => ({ ours: ours[of], peer: peer[of] }));
  return [
    compared(title, "ms", against, pairs("whole"), goal),
    compared(`${title}: processor time`, "ms", against, pairs("processor")),
  ];
}

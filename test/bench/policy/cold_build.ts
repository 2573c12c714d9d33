import type { Lab } from "../../lab/lab.ts";
import { compared, type ServicesRow } from "../services/row.ts";
import type { Pair } from "../statistics.ts";
import { type ClusterSize, sizeText } from "./cluster.ts";
import { inTurn } from "./in_turn.ts";
import { loadOurs, loadPeer, type PeerName } from "./loaded.ts";
import type { Spent } from "./nft_program.ts";

/**
 * Compares builds from nothing: ours from the objects to the kernel's last answer, the other layout's from its text to
 * nft's end.
 */
export async function comparedBuilds(
  lab: Lab,
  name: PeerName,
  size: ClusterSize,
  rounds: number,
): Promise<readonly ServicesRow[]> {
  const taken = await inTurn(
    rounds,
    async (): Promise<Spent> => {
      using ours = await loadOurs(lab, size);
      return ours.built;
    },
    (): Spent => {
      using peer = loadPeer(lab, name, size);
      return peer.built;
    },
  );
  const pairs = (of: keyof Spent): readonly Pair[] =>
    taken.map(({ ours, peer }) => ({ ours: ours[of], peer: peer[of] }));
  const title = `built from nothing, ${sizeText(size)}`;
  return [
    compared(title, "ms", name, pairs("whole")),
    compared(`${title}: processor time`, "ms", name, pairs("processor")),
  ];
}

import { type Row, compared, interleave } from "../row.ts";
import { median } from "../statistics.ts";
import { benchService, changesOf, type ClusterSize, sizeText } from "./cluster.ts";
import type { Loaded, Stage } from "./stage.ts";
import { Wire } from "./wire.ts";

const PACKETS = 60;
const GOAL = 1.25;

/** Compares the time of a first packet between a large cluster of ours and a small one. */
export function firstPacket(stage: Stage, large: ClusterSize, small: ClusterSize, rounds: number): Row {
  const pairs = interleave(rounds, asked(stage.loaded(large)), asked(stage.loaded(small)));
  const against = `ours at ${sizeText(small)}`;
  return compared(`first packet, ${sizeText(large)}`, "µs", against, pairs, { ratioAtMost: GOAL });
}

/**
 * Adds a Service whose endpoints answer. @returns a function that measures a few first packets: their median in
 * microseconds
 */
function asked({ node, size, wire }: Loaded): () => number {
  const service = Wire.served(benchService(size.services, size.endpoints));
  node.change(changesOf([service]));
  return () => median(wire.firstPackets(service, PACKETS));
}

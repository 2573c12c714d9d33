import { type Row, compared, interleave } from "../row.ts";
import { median } from "../statistics.ts";
import { benchService, changesOf, type ClusterSize, sizeText } from "./cluster.ts";
import { PEER } from "./kube_proxy_layout.ts";
import type { Ours } from "./ours.ts";
import { Peer } from "./peer.ts";
import type { Loaded, Stage } from "./stage.ts";
import { Wire } from "./wire.ts";

const PACKETS = 60;
const PEER_GOAL = 1.2;
const OWN_GOAL = 1.25;

/**
 * Compares the time of a connection's first packet from a pod to the endpoint's socket, in our layout and
 * kube-proxy's in turn.
 */
export function firstPacket(stage: Stage, size: ClusterSize, rounds: number): Row {
  const [ours, peer] = [asked(stage.ours(size)), asked(stage.peer(size))];
  const pairs = interleave(rounds, ours, peer);
  return compared(`first packet, ${sizeText(size)}`, "µs", PEER, pairs, { ratioAtMost: PEER_GOAL });
}

/** Compares the time of a first packet between a large cluster of ours and a small one. */
export function ownFirstPacket(stage: Stage, large: ClusterSize, small: ClusterSize, rounds: number): Row {
  const pairs = interleave(rounds, asked(stage.ours(large)), asked(stage.ours(small)));
  const against = `ours at ${sizeText(small)}`;
  return compared(`first packet, ${sizeText(large)}`, "µs", against, pairs, { ratioAtMost: OWN_GOAL });
}

/**
 * Adds a Service whose endpoints answer. @returns a function that measures a few first packets: their median in
 * microseconds
 */
function asked({ contestant, size, wire }: Loaded<Ours> | Loaded<Peer>): () => number {
  const service = Wire.served(benchService(size.services, size.endpoints));
  if (contestant instanceof Peer) contestant.add(service);
  else contestant.change(changesOf([service]));
  return () => median(wire.firstPackets(service, PACKETS));
}

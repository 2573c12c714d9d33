import { parseAddress } from "../../../kernel/ip/address.ts";
import type { SamplePacket } from "../../../kernel/nftables/foreign/sample_packet.ts";

/** A first TCP packet from one pod of the node to port 8080 of another. */
export const POD_TO_POD: SamplePacket = {
  path: "forward",
  protocol: "tcp",
  source: parseAddress("10.244.1.2"),
  destination: parseAddress("10.244.1.3"),
  sourcePort: 45_000,
  destinationPort: 8080,
  in: { index: 3, name: "drawbridge0" },
  out: { index: 3, name: "drawbridge0" },
  isReply: false,
  translation: "none",
  isSourceLocal: false,
  isDestinationLocal: false,
  reverseLink: { index: 3, name: "drawbridge0" },
};

import type { ConformanceCase } from "./conformance_case.ts";
import { EGRESS_PEER_CASES } from "./egress_peer_cases.ts";
import { GRESS_CASES } from "./gress_cases.ts";
import { NAMED_PORT_CASES } from "./named_port_cases.ts";
import { PROTOCOL_CASES } from "./protocol_cases.ts";
import { TIER_CASES } from "./tier_cases.ts";

/** The ClusterNetworkPolicy tests of network-policy-api v0.2.0. */
export const CONFORMANCE_CASES: readonly ConformanceCase[] = [
  ...PROTOCOL_CASES,
  ...GRESS_CASES,
  ...TIER_CASES,
  ...EGRESS_PEER_CASES,
  ...NAMED_PORT_CASES,
];

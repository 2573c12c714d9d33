import type { Address } from "../../../kernel/ip/address.ts";

/** Where a DNS server of the node is asked (`nodeLocalDNS`), by TCP and UDP. */
export const DNS_PORT = 53;

/** What the configuration says about the rules of policies; its fields have the same names there. */
export interface PolicyOptions {
  /** The bridge whose ports the pods are. */
  readonly bridge: string;
  /** NetworkPolicies hold for what a pod sends to its own node, too. */
  readonly policePodToOwnNode: boolean;
  /** Where a DNS server of the node listens: no NetworkPolicy keeps pods from it. */
  readonly nodeLocalDNS: readonly Address[];
  /** What is left of a TCP connection that was cut is reset. */
  readonly policyReset: boolean;
  /** What NetworkPolicies drop is logged, at a bounded rate. What those in shadow would drop always is. */
  readonly dropLog: boolean;
  /** The nflog group. */
  readonly dropLogGroup: number;
}

/** As the configuration has them by default. */
export const DEFAULT_POLICY_OPTIONS: PolicyOptions = Object.freeze({
  bridge: "drawbridge0",
  policePodToOwnNode: false,
  nodeLocalDNS: [],
  policyReset: false,
  dropLog: false,
  dropLogGroup: 107,
});

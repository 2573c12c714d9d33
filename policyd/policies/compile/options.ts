import type { Configuration } from "../../configuration/configuration.ts";
import type { Address } from "../../../kernel/ip/address.ts";

/** The configuration of the rules of policies, with the same names of fields. */
export interface PolicyOptions {
  /** The bridge of the pods. */
  readonly bridge: string;
  /** NetworkPolicies also apply to traffic from a pod to its own node. */
  readonly policePodToOwnNode: boolean;
  /** Addresses of the node's DNS server: NetworkPolicies always allow pods to reach it. */
  readonly nodeLocalDNS: readonly Address[];
  /** Later packets of a TCP connection that was cut are answered with a reset. */
  readonly policyReset: boolean;
  /**
   * Packets that NetworkPolicies drop are logged at a bounded rate. Those that shadow policies would drop always are.
   */
  readonly dropLog: boolean;
  /** The nflog group. */
  readonly dropLogGroup: number;
  /** The nflog group of the copies of DNS answers, for policies with domain names. */
  readonly answerLogGroup: number;
  /** Answers wait in the queue of the same number until the daemon has read them. */
  readonly hasAnswerQueue?: boolean;
  /** The most rules for a family with which NetworkPolicies are compiled rule by rule; absent for the usual number. */
  readonly flattenAbove?: number;
}

/** The options of the default configuration. */
export const DEFAULT_POLICY_OPTIONS: PolicyOptions = Object.freeze({
  bridge: "drawbridge0",
  policePodToOwnNode: false,
  nodeLocalDNS: [],
  policyReset: false,
  dropLog: false,
  dropLogGroup: 107,
  answerLogGroup: 108,
});

/** Returns the configured options of policies; undefined where policies are not enforced. */
export function policyOptions(configuration: Configuration): PolicyOptions | undefined {
  return configuration.policies ? configuration : undefined;
}

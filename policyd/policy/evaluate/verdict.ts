import type { Address, Family } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { ClusterPolicyAction, ClusterPolicyTier, LabelRequirement, Protocol } from "../../cluster/model.ts";

/** What becomes of a flow, with the reasons as data; `print.ts` has the words. */
export type PolicyVerdict = JudgedFlow | ImpossibleFlow;

/** Allowed when both ends allow it (POL-05). */
export interface JudgedFlow {
  readonly kind: "allowed" | "denied";
  /** Undefined where no address is known. */
  readonly family: Family | undefined;
  readonly source: Party;
  readonly destination: Party;
  readonly egress: EndVerdict;
  readonly ingress: EndVerdict;
}

/** No such packets can be sent, whatever the policies. */
export interface ImpossibleFlow {
  readonly kind: "impossible";
  readonly reason:
    /** Succeeded or failed: its address may already be another pod's. */
    | { readonly type: "pod has finished"; readonly end: "source" | "destination"; readonly pod: string }
    /** The ends have addresses, but none in the family of the flow, or no family in common. */
    | { readonly type: "no common family" };
}

/** What an end of a flow turned out to be. */
export type Party =
  | { readonly type: "pod"; readonly key: string; readonly address: Address | undefined }
  /** `pod` where it was named by a pod of the host's network; without a name where that pod is on no node yet. */
  | {
      readonly type: "node";
      readonly name: string | undefined;
      readonly address: Address | undefined;
      readonly pod: string | undefined;
    }
  | { readonly type: "outside"; readonly address: Address };

/** What the policies of one end say. */
export interface EndVerdict {
  readonly isAllowed: boolean;
  readonly decision: Decision;
  /** The Pass rules that handed it to the next tier, in order. */
  readonly passed: readonly ClusterRuleMatch[];
  /** Keys of the NetworkPolicies that select the end in this direction, whether or not they were asked, in order. */
  readonly isolatedBy: readonly string[];
  /** The rule of those that comes nearest to allowing it; only where none does. */
  readonly nearest: NearMiss | undefined;
  /** What NetworkPolicies would say with those in shadow among them; undefined where none of these would be asked. */
  readonly shadow: ShadowVerdict | undefined;
}

export interface ShadowVerdict {
  /** Whether those in shadow would deny what no NetworkPolicy denies now. The Baseline tier may deny it all the same. */
  readonly wouldDrop: boolean;
  /** By a rule, also of a policy in force; or isolated. */
  readonly decision: Extract<Decision, { readonly type: "rule" | "isolated" }>;
  /** Keys of the policies in shadow that would isolate the end in this direction, in order. */
  readonly policies: readonly string[];
  /** As {@link EndVerdict.nearest}, of those in shadow alone; only where it would be dropped. */
  readonly nearest: NearMiss | undefined;
}

export type Decision =
  /** Allowed: policies do not concern it. */
  | { readonly type: "exempt"; readonly because: Exemption }
  /** Allowed by Accept, denied by Deny. */
  | { readonly type: "cluster rule"; readonly rule: ClusterRuleMatch }
  /** Allowed. */
  | { readonly type: "rule"; readonly rule: RuleMatch }
  /** Denied: isolated, and no rule allows it. */
  | { readonly type: "isolated" }
  /** Allowed: no policy has a say. */
  | { readonly type: "default" };

export type Exemption =
  /** The end is a node, a pod of the host's network or outside of the cluster: no policy selects it (POL-54). */
  | "no pod"
  /** A pod and the node it runs on (POL-07). */
  | "own node"
  /** A pod and itself (POL-06). */
  | "itself"
  /** A pod and the node's own DNS cache. */
  | "node-local DNS"
  | "ICMP error";

/** Where a rule is and what of it fits. Places count from 0 in the lists of the object as it was written. */
export interface RuleMatch {
  /** `namespace/name` */
  readonly policy: string;
  readonly rule: number;
  /** Undefined where the rule has no `from` or `to`: everyone. */
  readonly peer: number | undefined;
  /** Undefined where the rule has no `ports`: every port of every protocol. */
  readonly port: number | undefined;
}

export interface ClusterRuleMatch extends RuleMatch {
  readonly tier: ClusterPolicyTier;
  readonly priority: number;
  readonly action: ClusterPolicyAction;
  readonly name: string | undefined;
  /** Why the rule fails closed, as everyone's Deny, where it could not be read. */
  readonly unreadable: string | undefined;
  /** Policies of the same tier and priority that would do something else: which of them counts is undefined. */
  readonly tiedWith: readonly string[];
}

/** A rule that does not fit, and what of it does not: of its peers and ports those that come nearest. */
export interface NearMiss extends RuleMatch {
  /** At least one. */
  readonly failed: readonly Failure[];
}

export type Failure =
  /** The other end's pod has not the labels. */
  | { readonly type: "pod labels"; readonly requirement: LabelRequirement }
  /** Its namespace has not the labels. */
  | { readonly type: "namespace labels"; readonly requirement: LabelRequirement }
  /** It is in another namespace than the policy, to which a `podSelector` alone is limited (POL-21). */
  | { readonly type: "namespace"; readonly expected: string }
  /** Selectors select pods, and it is none: a node, a pod of the host's network, or outside of the cluster. */
  | { readonly type: "no pod" }
  | { readonly type: "outside cidr"; readonly cidr: Cidr }
  | { readonly type: "except"; readonly except: Cidr }
  /** An ipBlock, and nobody knows the other end's address. */
  | { readonly type: "no address" }
  /** Every peer of the rule was invalid. */
  | { readonly type: "no valid peer" }
  | { readonly type: "protocol"; readonly expected: Protocol }
  | { readonly type: "port"; readonly from: number; readonly to: number }
  /** The destination has not this name at this port; `found` are the ports it has under it, of the same protocol. */
  | { readonly type: "named port"; readonly name: string; readonly found: readonly number[] }
  /** The destination is not a pod with an address of its own, and only such pods have names for ports (POL-31). */
  | { readonly type: "named port of no pod"; readonly name: string }
  /** Rules with ports are for TCP, UDP and SCTP. */
  | { readonly type: "ICMP has no ports" }
  /** Every port of the rule was invalid. */
  | { readonly type: "no valid port" };

import type { Address, Family } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { ClusterPolicyAction, ClusterPolicyTier, LabelRequirement, Protocol } from "../../model.ts";

/** The verdict on a flow, with the reasons as data; `print.ts` has the words. */
export type PolicyVerdict = EvaluatedFlow | ImpossibleFlow;

/** Allowed when both ends allow it (POL-05). */
export interface EvaluatedFlow {
  readonly kind: "allowed" | "denied";
  /** Undefined if no address is known. */
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
    /** The pod has succeeded or failed: its address may already be another pod's. */
    | { readonly type: "pod has finished"; readonly end: "source" | "destination"; readonly pod: string }
    /** The ends have addresses, but none in the family of the flow, or no family in common. */
    | { readonly type: "no common family" };
}

/** The party at an end of a flow. */
export type Party =
  | { readonly type: "pod"; readonly key: string; readonly address: Address | undefined }
  /** `pod` is set if it was given as a host-network pod; the name is undefined if that pod is not on a node yet. */
  | {
      readonly type: "node";
      readonly name: string | undefined;
      readonly address: Address | undefined;
      readonly pod: string | undefined;
    }
  | { readonly type: "outside"; readonly address: Address };

/** The verdict of the policies of one end. */
export interface EndVerdict {
  readonly isAllowed: boolean;
  readonly decision: Decision;
  /** The Pass rules that passed the flow to the next tier, in order. */
  readonly passed: readonly ClusterRuleMatch[];
  /** Keys of the NetworkPolicies that select the end in this direction, evaluated or not, in order. */
  readonly isolatedBy: readonly string[];
  /** Their rule that comes nearest to allowing it; set only if none does. */
  readonly nearest: NearMiss | undefined;
  /** The rule by which it is allowed if DNS gave the sender the address for one of its names; undefined if none does. */
  readonly byName: NameMatch | undefined;
  /** The decision with NetworkPolicies in shadow among the others; undefined if those would not be evaluated. */
  readonly shadow: ShadowVerdict | undefined;
}

export interface NameMatch extends Pick<RuleMatch, "policy" | "rule"> {
  readonly names: readonly string[];
}

export interface ShadowVerdict {
  /** Whether policies in shadow would deny what no NetworkPolicy denies now. The Baseline tier may still deny it. */
  readonly wouldDrop: boolean;
  /** Allowed by a rule, possibly of a policy in force; or isolated. */
  readonly decision: Extract<Decision, { readonly type: "rule" | "isolated" }>;
  /** Keys of the policies in shadow that would isolate the end in this direction, in order. */
  readonly policies: readonly string[];
  /** As {@link EndVerdict.nearest}, only of policies in shadow; set only if the flow would be dropped. */
  readonly nearest: NearMiss | undefined;
}

export type Decision =
  /** Allowed: policies do not apply to it. */
  | { readonly type: "exempt"; readonly because: Exemption }
  /** Allowed by Accept, denied by Deny. */
  | { readonly type: "cluster rule"; readonly rule: ClusterRuleMatch }
  /** Allowed. */
  | { readonly type: "rule"; readonly rule: RuleMatch }
  /** Denied: isolated, and no rule allows it. */
  | { readonly type: "isolated" }
  /** Allowed: no policy decides. */
  | { readonly type: "default" };

export type Exemption =
  /** The end is a node, a host-network pod or outside of the cluster: no policy selects it (POL-54). */
  | "no pod"
  /** A pod and the node it runs on (POL-07). */
  | "own node"
  /** A pod and itself (POL-06). */
  | "itself"
  /** A pod and the node's own DNS cache. */
  | "node-local DNS"
  | "ICMP error";

/** The place of a rule and its matching parts. Places count from 0 in the lists of the object as it was written. */
export interface RuleMatch {
  /** `namespace/name` */
  readonly policy: string;
  readonly rule: number;
  /** Undefined if the rule has no `from` or `to`: everyone. */
  readonly peer: number | undefined;
  /** Undefined if the rule has no `ports`: every port of every protocol. */
  readonly port: number | undefined;
}

export interface ClusterRuleMatch extends RuleMatch {
  readonly tier: ClusterPolicyTier;
  readonly priority: number;
  readonly action: ClusterPolicyAction;
  readonly name: string | undefined;
  /** Why the rule could not be read and fails closed as a Deny for everyone. */
  readonly unreadable: string | undefined;
  /** Policies of the same tier and priority that would decide otherwise: it is undefined which of them counts. */
  readonly tiedWith: readonly string[];
}

/** A rule that does not match, with the reasons: of its peers and ports those that come nearest. */
export interface NearMiss extends RuleMatch {
  /** At least one. */
  readonly failed: readonly Failure[];
}

export type Failure =
  /** The other end's pod does not have the labels. */
  | { readonly type: "pod labels"; readonly requirement: LabelRequirement }
  /** Its namespace does not have the labels. */
  | { readonly type: "namespace labels"; readonly requirement: LabelRequirement }
  /** It is in another namespace than the policy, to which a lone `podSelector` is limited (POL-21). */
  | { readonly type: "namespace"; readonly expected: string }
  /** Another pod, which the next failures are about, has the end's address as well (POL-95). */
  | { readonly type: "shared address"; readonly name: string }
  /** Selectors only select pods, and the end is a node, a host-network pod, or outside of the cluster. */
  | { readonly type: "no pod" }
  | { readonly type: "names"; readonly names: readonly string[] }
  | { readonly type: "outside cidr"; readonly cidr: Cidr }
  | { readonly type: "except"; readonly except: Cidr }
  /** The peer is an ipBlock, and the other end's address is not known. */
  | { readonly type: "no address" }
  /** Every peer of the rule was invalid. */
  | { readonly type: "no valid peer" }
  | { readonly type: "protocol"; readonly expected: Protocol }
  | { readonly type: "port"; readonly from: number; readonly to: number }
  /** The destination does not have this name at this port; `found` are its ports of this name and protocol. */
  | { readonly type: "named port"; readonly name: string; readonly found: readonly number[] }
  /** The destination is not a pod with an address of its own, and only such pods have names for ports (POL-31). */
  | { readonly type: "named port of no pod"; readonly name: string }
  /** Rules with ports are for TCP, UDP and SCTP. */
  | { readonly type: "ICMP has no ports" }
  /** Every port of the rule was invalid. */
  | { readonly type: "no valid port" };

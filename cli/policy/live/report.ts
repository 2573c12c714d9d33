import type { Sides } from "../diff/end_class.ts";
import type { Locate, Place } from "../../input/locate.ts";
import { reasonOf } from "../diff/witness.ts";
import type { SeenConnections } from "./read_tables.ts";
import { type Cut, type Denial, type Forecast, forecast } from "./forecast.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import { type Cidr, formatCidr } from "../../../kernel/ip/cidr.ts";
import type { Direction } from "../../../objects/semantics/policies/flow.ts";
import { workloadKeyOf } from "../../../objects/workload_name.ts";
import { isFinished } from "../../../objects/semantics/policies/address_owner.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { entryAt, podPeer, rangeAt, rangePeer } from "./peer.ts";

/** A cut with its reasons and the rules that would prevent it. */
export interface ReportedCut {
  readonly cut: Cut;
  readonly reasons: readonly { readonly direction: string; readonly text: string; readonly places: readonly Place[] }[];
  readonly rules: readonly (KeepingRule | Unkeepable)[];
}

/** The effect of a change on the connections of some tables. */
export interface LiveReport extends Omit<Forecast, "cuts"> {
  /** The number of entries with protocols to which policies do not apply. */
  readonly others: number;
  /** Whether nodes were not asked for their connections. */
  readonly isPartial: boolean;
  readonly cuts: readonly ReportedCut[];
}

/** Returns the effect of a change on connections. @param locate finds the policies after the change */
export function liveReport(
  sides: Sides,
  locate: Locate,
  { connections, others, denied, isPartial }: SeenConnections,
): LiveReport {
  const { cuts, ...counts } = forecast(sides, connections, denied);
  const reported = cuts.map((cut): ReportedCut => {
    const reasons = cut.denials.map(({ direction, verdict }) => {
      const { reason: text, places } = reasonOf(verdict, direction, locate);
      return { direction, text, places };
    });
    return { cut, reasons, rules: cut.denials.map((denial) => keepingRule(sides.after, cut, denial)) };
  });
  return { ...counts, others, isPartial, cuts: reported };
}

/** A rule that would keep the connections of a {@link Cut} at one end. */
interface KeepingRule {
  readonly direction: Direction;
  /** The NetworkPolicy that gets it, as `namespace/name`. */
  readonly policy: string;
  /** An element of the policy's `spec.ingress` or `spec.egress`. */
  readonly rule: object;
}

/** A connection that no rule of a NetworkPolicy can keep, and why. */
interface Unkeepable {
  readonly direction: Direction;
  readonly reason: string;
}

/** The most addresses in a rule; more are nobody's intention. */
const MOST_ADDRESSES = 20;

/**
 * Returns the smallest rule that would keep the connections of a cut at an end that denies them. It names the other
 * end's workload as `policy suggest` does, or other addresses themselves, and only this protocol and port.
 */
function keepingRule(index: PolicyIndex, cut: Cut, { direction, verdict }: Denial): KeepingRule | Unkeepable {
  const { decision, isolatedBy } = verdict;
  if (decision.type === "cluster rule") {
    const { policy, rule, action } = decision.rule;
    return {
      direction,
      reason: `${action} of ClusterNetworkPolicy ${policy}, ${direction}[${rule}], comes before NetworkPolicies`,
    };
  }
  const [policy] = isolatedBy;
  if (policy === undefined) return { direction, reason: "no NetworkPolicy isolates it" };
  if (cut.protocol === "ICMP" || (cut.port ?? 0) === 0)
    return { direction, reason: "a rule with ports does not allow ICMP or port 0; one without ports does" };
  const [namespace = ""] = policy.split("/");
  const others = cut.connections.map((connection) => {
    const address = direction === "ingress" ? connection.source : connection.destination;
    return { address, range: rangeAt(connection, address) };
  });
  const peers = peersOf(index, namespace, others);
  if (typeof peers === "string") return { direction, reason: peers };
  const ports = [{ protocol: cut.protocol, port: cut.port }];
  return { direction, policy, rule: { [direction === "ingress" ? "from" : "to"]: peers, ports } };
}

/** Returns peers that contain all addresses and their ranges, or a text that says why there are none. */
function peersOf(
  index: PolicyIndex,
  namespace: string,
  others: readonly { readonly address: Address; readonly range: Cidr }[],
): readonly object[] | string {
  const [first] = others.flatMap(({ address }) => entryAt(index, address)?.pod ?? []);
  if (first !== undefined) {
    const all = [...index.pods.values()].filter(({ pod, subject }) => subject !== undefined && !isFinished(pod));
    const workload = all.map(({ pod }) => pod).filter((pod) => workloadKeyOf(pod) === workloadKeyOf(first));
    const peer = podPeer(workload, namespace, index);
    return peer === undefined ? `its pods have no label in common; give ${first.namespace}'s workload one` : [peer];
  }
  const ranges = new Map(others.map(({ range }) => [formatCidr(range), range]));
  if (ranges.size > MOST_ADDRESSES) return `${ranges.size} addresses: expected a range that holds them, as an ipBlock`;
  return [...ranges.values()].map(rangePeer);
}

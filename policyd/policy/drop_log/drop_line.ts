import type { Address } from "../../../kernel/ip/address.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import type { Fields } from "../../log/logger.ts";
import { evaluatePolicy } from "../evaluate/evaluate.ts";
import type { Direction } from "../evaluate/flow.ts";
import type { PolicyOptions } from "../evaluate/objects.ts";
import { buildPolicyIndex } from "../evaluate/policy_index.ts";
import { clusterRuleText, nearMissText } from "../evaluate/print.ts";
import type { EndVerdict } from "../evaluate/verdict.ts";
import type { AddressHolder } from "../live/member_index.ts";
import type { ClusterView } from "./cluster_view.ts";
import { reducedCluster } from "./cluster_view.ts";
import type { LoggedFlow } from "./logged_flow.ts";

/** More policies than these are counted. */
const MOST_POLICIES = 5;

const SINCE = "policies allow it by now";

/**
 * What the log says of a packet: whose it was, to or from whom, and why, by the evaluator. It judges by what the cluster is
 * now: what changed since the packet was dropped is said to have changed.
 */
export function dropFields(view: ClusterView, flow: LoggedFlow, options: PolicyOptions): Fields {
  const { origin, source, destination, protocol, traffic } = flow;
  const { direction } = origin;
  const [subject, other] = direction === "egress" ? [source, destination] : [destination, source];
  const holder = view.holderOf(subject);
  const fields: Fields = {
    pod: holder?.type === "pod" ? holder.pod.key : undefined,
    direction,
    peer: peerText(view.holderOf(other), other),
    protocol,
    port: traffic.port,
    source: formatAddress(source),
    destination: formatAddress(destination),
  };
  if (holder?.type !== "pod") return { ...fields, because: "no pod has the address by now" };
  const index = buildPolicyIndex(reducedCluster(view, subject, other), options);
  const verdict = evaluatePolicy(index, {
    source: { type: "address", address: source },
    destination: { type: "address", address: destination },
    // What a pod sends to itself comes by here only if it was sent to a Service.
    isThroughService: true,
    ...traffic,
  });
  if (verdict.kind === "impossible") return { ...fields, because: "the pod has finished by now" };
  const reasons =
    origin.outcome === "drop" ? denialOf(verdict[direction], direction) : shadowOf(verdict[direction], direction);
  return { ...fields, ...reasons };
}

function denialOf({ isAllowed, decision, isolatedBy, nearest }: EndVerdict, direction: Direction): Fields {
  if (isAllowed) return { because: SINCE };
  if (decision.type === "cluster rule") return { because: `Deny of ${clusterRuleText(decision.rule, direction)}` };
  return reasonsOf(isolatedBy, nearest, direction);
}

function shadowOf({ shadow }: EndVerdict, direction: Direction): Fields {
  if (shadow?.wouldDrop !== true) return { because: SINCE };
  return reasonsOf(shadow.policies, shadow.nearest, direction);
}

function reasonsOf(policies: readonly string[], nearest: EndVerdict["nearest"], direction: Direction): Fields {
  const more = policies.length - MOST_POLICIES;
  return {
    policies: `${policies.slice(0, MOST_POLICIES).join(", ")}${more > 0 ? ` and ${more} more` : ""}`,
    nearest: nearest === undefined ? "none: they have no rules" : nearMissText(nearest, direction),
  };
}

function peerText(holder: AddressHolder | undefined, address: Address): string {
  if (holder === undefined) return formatAddress(address);
  return holder.type === "pod" ? holder.pod.key : `node/${holder.name}`;
}

import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import type { Fields } from "../../log/logger.ts";
import { evaluatePolicy } from "../../../objects/semantics/policies/evaluate.ts";
import type { Direction } from "../../../objects/semantics/policies/flow.ts";
import type { PolicyOptions } from "../../../objects/semantics/policies/objects.ts";
import { buildPolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { clusterRuleText, nearMissText } from "../../../objects/semantics/policies/print.ts";
import type { EndVerdict } from "../../../objects/semantics/policies/verdict.ts";
import type { AddressHolder } from "../../flows/flow_end_names.ts";
import { type ClusterView, reducedCluster } from "./cluster_view.ts";
import type { LoggedFlow } from "./logged_flow.ts";
import { shortList } from "../../../objects/printable.ts";

/** The most policies that a line names; the others are counted. */
const MOST_POLICIES = 5;

const SINCE = "policies allow it by now";

/**
 * Returns the log's fields for a packet: its pod, its peer and, by the evaluator, the reason. The evaluator uses the
 * cluster as it is now: if the verdict has changed since the packet was dropped, the reason says so.
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
  const cluster = reducedCluster(view, subject, other);
  const index = buildPolicyIndex(cluster, options);
  const verdict = evaluatePolicy(index, {
    source: { type: "address", address: source },
    destination: { type: "address", address: destination },
    // A pod's packet to itself is only logged if it was sent to a Service.
    isThroughService: true,
    ...traffic,
  });
  if (verdict.kind === "impossible") return { ...fields, because: "the pod has finished by now" };
  const context = { direction, tooLarge: cluster.tooLarge[direction] };
  const reasons =
    origin.outcome === "drop" ? denialOf(verdict[direction], context) : shadowOf(verdict[direction], context);
  return { ...fields, ...reasons };
}

/** Returns the reason in the fields of {@link dropFields} as one text. */
export function reasonIn({ because, policies, nearest }: Fields): string {
  return because === undefined ? `isolated by ${policies}; nearest: ${nearest}` : String(because);
}

interface Context {
  readonly direction: Direction;
  /** Keys of the policies that allow nothing because of their size. */
  readonly tooLarge: ReadonlySet<string>;
}

function denialOf({ isAllowed, decision, isolatedBy, nearest }: EndVerdict, context: Context): Fields {
  if (isAllowed) return { because: SINCE };
  if (decision.type === "cluster rule") {
    return { because: `Deny of ${clusterRuleText(decision.rule, context.direction)}` };
  }
  return reasonsOf(isolatedBy, nearest, context);
}

function shadowOf({ shadow }: EndVerdict, context: Context): Fields {
  if (shadow?.wouldDrop !== true) return { because: SINCE };
  return reasonsOf(shadow.policies, shadow.nearest, context);
}

function reasonsOf(
  policies: readonly string[],
  nearest: EndVerdict["nearest"],
  { direction, tooLarge }: Context,
): Fields {
  const oversized = policies.filter((policy) => tooLarge.has(policy));
  const none = oversized.length === policies.length ? "none: they are too large" : "none: they have no rules";
  return {
    policies: shortList(policies, MOST_POLICIES),
    ...(oversized.length === 0 ? {} : { tooLarge: shortList(oversized, MOST_POLICIES) }),
    nearest: nearest === undefined ? none : nearMissText(nearest, direction),
  };
}

function peerText(holder: AddressHolder | undefined, address: Address): string {
  if (holder === undefined) return formatAddress(address);
  return holder.type === "pod" ? holder.pod.key : `node/${holder.name}`;
}

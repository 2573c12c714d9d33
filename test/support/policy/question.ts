import { parseAddress } from "../../../kernel/ip/address.ts";
import { evaluatePolicy } from "../../../policyd/semantics/policies/evaluate.ts";
import type { Flow, FlowEnd, FlowEnds } from "../../../policyd/semantics/policies/flow.ts";
import type { PolicyOptions } from "../../../policyd/semantics/policies/objects.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../policyd/semantics/policies/policy_index.ts";
import type { PolicyVerdict } from "../../../policyd/semantics/policies/verdict.ts";
import { storeOf } from "../evaluate/store.ts";

/** Returns an index of manifests. */
export function indexOf(manifests: readonly object[], options?: Partial<PolicyOptions>): PolicyIndex {
  return buildPolicyIndex(storeOf(manifests), options);
}

/**
 * Returns the verdict on a flow in words: ends are `NAMESPACE/NAME` of a pod, `node/NAME` or an address; traffic is
 * `80/TCP`, `ICMP` or `ICMP error`.
 */
export function ask(
  index: PolicyIndex,
  [source, destination]: readonly [string, string],
  traffic = "80/TCP",
  rest: Omit<FlowEnds, "source" | "destination"> = {},
): PolicyVerdict {
  return evaluatePolicy(index, flowOf(source, destination, traffic, rest));
}

/** Returns which of these flows are allowed, in their order. */
export function allowed(
  index: PolicyIndex,
  pairs: readonly (readonly [string, string])[],
  traffic = "80/TCP",
): readonly string[] {
  return pairs.flatMap(([from, to]) =>
    ask(index, [from, to], traffic).kind === "allowed" ? [`${from} -> ${to}`] : [],
  );
}

function flowOf(
  source: string,
  destination: string,
  traffic: string,
  rest: Omit<FlowEnds, "source" | "destination">,
): Flow {
  const ends = { ...rest, source: endOf(source), destination: endOf(destination) };
  if (traffic === "ICMP" || traffic === "ICMP error") return { ...ends, protocol: traffic };
  const [port, protocol] = traffic.split("/");
  if (protocol !== "TCP" && protocol !== "UDP" && protocol !== "SCTP") throw new Error(`no traffic: ${traffic}`);
  return { ...ends, protocol, port: Number(port) };
}

function endOf(text: string): FlowEnd {
  if (text.startsWith("node/")) return { type: "node", name: text.slice("node/".length) };
  return text.includes("/") ? { type: "pod", key: text } : { type: "address", address: parseAddress(text) };
}

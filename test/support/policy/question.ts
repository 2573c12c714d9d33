import { parseAddress } from "../../../kernel/ip/address.ts";
import { evaluatePolicy } from "../../../objects/semantics/policies/evaluate.ts";
import { PROTOCOLS } from "../../../objects/protocol.ts";
import { DNS_PORT } from "../../../objects/domain_name.ts";
import type { Flow, FlowEnd, FlowEnds, Traffic } from "../../../objects/semantics/policies/flow.ts";
import type { PolicyOptions } from "../../../objects/semantics/policies/objects.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { PolicyVerdict } from "../../../objects/semantics/policies/verdict.ts";
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

/** Returns ICMP, and in each protocol both sides of every port that a policy or a pod in the manifests names. */
export function trafficsIn(manifests: unknown): readonly Traffic[] {
  const text = JSON.stringify(manifests);
  const named = [...text.matchAll(/"(?:port|endPort|containerPort|number|start|end)":(\d+)/g)].map(([, port]) =>
    Number(port),
  );
  const near = named.flatMap((port) => [port - 1, port, port + 1]);
  const ports = [...new Set([1, DNS_PORT, ...near, 65_535])].filter((port) => port >= 1 && port <= 65_535);
  return [{ protocol: "ICMP" }, ...PROTOCOLS.flatMap((protocol) => ports.map((port): Traffic => ({ protocol, port })))];
}

/** Returns a value as JSON, in which addresses are texts of digits. */
export function show(value: unknown): string {
  return JSON.stringify(value, (_, one: unknown) => (typeof one === "bigint" ? String(one) : one));
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

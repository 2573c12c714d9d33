import { clusterNetworkPolicy, labelled } from "../manifest.ts";
import type { Traffic } from "./conformance_case.ts";
import { type House, namespaceOf } from "./hogwarts.ts";

export type Tier = "Admin" | "Baseline";
export type Action = "Accept" | "Deny" | "Pass";
export type Direction = "egress" | "ingress";

export interface Rule {
  readonly action: Action;
  readonly from?: readonly object[];
  readonly to?: readonly object[];
  readonly protocols?: readonly object[];
}

interface Spec {
  readonly tier: Tier;
  readonly priority: number;
  readonly subject: object;
  readonly ingress?: readonly Rule[];
  readonly egress?: readonly Rule[];
}

/** Returns a ClusterNetworkPolicy. */
export function policy(name: string, spec: Spec): object {
  return clusterNetworkPolicy(name, spec);
}

/** Returns the peer of all pods in a house's namespace, by the label of its name that every namespace has. */
export function houseByName(house: House): object {
  return { namespaces: labelled({ "kubernetes.io/metadata.name": namespaceOf(house) }) };
}

/** Returns the peer of all pods in a house's namespace, by the label of the suite's namespaces. */
export function houseByLabel(house: House): object {
  return { namespaces: labelled({ "conformance-house": house }) };
}

/** Returns the peer of a house's pods, by labels of the namespace and of its pods. */
export function podsByLabel(house: House): object {
  const selector = labelled({ "conformance-house": house });
  return { pods: { namespaceSelector: selector, podSelector: selector } };
}

/** Returns a rule about traffic from peers or to them. */
export function rule(
  direction: Direction,
  action: Action,
  peers: readonly object[],
  protocols?: readonly object[],
): Rule {
  const named = direction === "egress" ? { to: peers } : { from: peers };
  return { action, ...named, ...(protocols === undefined ? {} : { protocols }) };
}

/** Returns traffic as rules name it. */
export function protocolOf(traffic: Traffic): object {
  const [number, protocol = ""] = traffic.split("/");
  return { [protocol.toLowerCase()]: { destinationPort: { number: Number(number) } } };
}

/** Returns a range of ports as rules name it. */
export function rangeOf(protocol: "tcp" | "udp" | "sctp", start: number, end: number): object {
  return { [protocol]: { destinationPort: { range: { start, end } } } };
}

/** Returns rules with those at two places exchanged. */
export function swapped(rules: readonly Rule[], first: number, second: number): readonly Rule[] {
  const places = new Map([
    [first, second],
    [second, first],
  ]);
  return rules.map((own, index) => rules[places.get(index) ?? index] ?? own);
}

/**
 * The places of the acceptance table, with the IPv4 addresses of document 004: nodes, their bridges, clients from
 * outside, pods. "H1" and "H2" of the document, processes of the nodes, are "n1" and "n2" here.
 */
export const PLACES = {
  n1: "10.240.0.5",
  n2: "10.240.0.4",
  "n1 bridge": "10.244.1.1",
  "n2 bridge": "10.244.0.1",
  /** A client whose packets to Services' addresses arrive at n1. */
  C: "10.188.0.4",
  /** A second client like C. */
  D: "10.188.0.5",
  /** A client whose packets to Services' addresses, and to n1's external IP, are delivered to n2. */
  "C by n2": "10.188.0.6",
  P1: "10.244.1.20",
  dns: "10.244.1.58",
  "redis-1": "10.244.1.69",
  "redis-2": "10.244.1.70",
  "redis-3": "10.244.1.72",
  "ext-1": "10.244.1.76",
  "ext-2": "10.244.1.77",
  P2: "10.244.0.20",
  "np-1": "10.244.0.4",
  "np-2": "10.244.0.5",
  "vote-1": "10.244.0.6",
  "vote-2": "10.244.0.7",
  /** An endpoint of n3. */
  far: "10.244.3.9",
  localhost: "127.0.0.1",
} as const satisfies Readonly<Record<string, string>>;

export type Place = keyof typeof PLACES;

export const NODES = ["n1", "n2"] as const satisfies readonly Place[];

export type NodePlace = (typeof NODES)[number];

export const PODS: Readonly<Record<NodePlace, readonly Place[]>> = {
  n1: ["P1", "dns", "redis-1", "redis-2", "redis-3", "ext-1", "ext-2"],
  n2: ["P2", "np-1", "np-2", "vote-1", "vote-2"],
};

export const CLIENTS = ["C", "D", "C by n2"] as const satisfies readonly Place[];

/** Returns the node that sees a packet first. */
export function entryNode(from: Place, to: string): NodePlace {
  for (const node of NODES) if (from === node || PODS[node].includes(from)) return node;
  return from === "C by n2" || to.startsWith("n2:") ? "n2" : "n1";
}

export function isPlace(name: string): name is Place {
  return Object.hasOwn(PLACES, name);
}

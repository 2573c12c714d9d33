import { type Address, type Family, formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { evaluate } from "../../../objects/semantics/services/evaluate.ts";
import type { Entry, Packet } from "../../../objects/semantics/services/packet.ts";
import type { Verdict } from "../../../objects/semantics/services/verdict.ts";
import type { ServiceWorld } from "../../../objects/semantics/services/world.ts";
import { storeOf } from "../../support/evaluate/store.ts";
import { type NodeName, NODES } from "../world.ts";
import { type Answer, answerKey, type ExpectedCell } from "./cells.ts";
import type { EndpointPod, Frontend } from "./frontends.ts";

/** A source port, any of which will do: Services ignore it. */
const SOURCE_PORT = 40_000;
const PROTOCOLS = { tcp: "TCP", udp: "UDP", sctp: "SCTP" } as const;

type Addresses = Readonly<Record<Family, Address>>;

export interface NodePlan {
  readonly uplink: Addresses;
  /** The bridge's addresses, by which a node talks to its own pods. */
  readonly bridge: Addresses;
}

/** The addresses of all parties. */
export interface Plan {
  readonly pods: readonly (EndpointPod & { readonly node: NodeName })[];
  readonly nodes: Readonly<Record<NodeName, NodePlan>>;
  /** The addresses on the link of node1. */
  readonly router: Addresses;
}

/**
 * The clients of Services: a pod of each node, a node, and the router as one from outside, whose Service traffic enters
 * at node1.
 */
export const CLIENTS = ["pod-a", "pod-d", "node1", "router"] as const;

export type ClientName = (typeof CLIENTS)[number];

/** Returns the name of an address's owner: "itself" for the client. A node's two addresses have different names. */
export function nameOfSource(plan: Plan, client: string, source: Address): string {
  const holder = holderOf(plan, source);
  if (holder === client && !isNode(client)) return "itself";
  const place = NODES.find((node) => holder === node);
  if (place === undefined) return holder ?? formatAddress(source);
  return `${place}'s ${Object.values(plan.nodes[place].bridge).includes(source) ? "bridge" : "uplink"}`;
}

/**
 * Returns the expected result of every client at every frontend, from the evaluator of Services on each node that a
 * packet passes, and from the routes between the nodes.
 *
 * @param manifests all objects of the cluster
 */
export function expectedCells(
  plan: Plan,
  frontends: readonly Frontend[],
  manifests: readonly object[],
): readonly ExpectedCell[] {
  const worlds = worldsOf(plan, manifests);
  return frontends.flatMap((frontend) =>
    CLIENTS.flatMap((client) =>
      FAMILIES.map((family): ExpectedCell => {
        const ends = frontend.addresses[family].map((to) => endOf({ plan, worlds, client, family }, frontend, to));
        const [outcome = "no answer", ...others] = new Set(ends.map((end) => end.outcome));
        if (others.length > 0) throw new Error(`${frontend.name}: its addresses have different expected results`);
        const answers = new Map(ends.flatMap((end) => end.answers).map((answer) => [answerKey(answer), answer]));
        return {
          frontend: frontend.name,
          client,
          family,
          outcome,
          answers: [...answers.values()],
          isSticky: ends.some(({ isSticky }) => isSticky),
        };
      }),
    ),
  );
}

type End = Pick<ExpectedCell, "outcome" | "answers" | "isSticky">;

interface Asking {
  readonly plan: Plan;
  readonly worlds: Readonly<Record<NodeName, ServiceWorld>>;
  readonly client: ClientName;
  readonly family: Family;
}

function endOf(asking: Asking, { protocol, port }: Frontend, destination: Address): End {
  const { plan, worlds, client, family } = asking;
  const holder = holderOf(plan, destination);
  const isPod = plan.pods.some(({ name }) => name === holder);
  // Only the nodes have a route to pods.
  if (client === "router" && isPod) return { outcome: "no route", answers: [], isSticky: false };
  const packet: Omit<Packet, "entry"> = {
    protocol: PROTOCOLS[protocol],
    source: sourceOf(plan, client, family, destination),
    sourcePort: SOURCE_PORT,
    destination,
    destinationPort: port,
  };
  for (const [node, entry] of wayOf(plan, client, holder)) {
    const verdict = evaluate(worlds[node], { ...packet, entry });
    if (verdict.kind !== "pass") return judged(asking, node, packet.source, verdict);
  }
  if (holder === undefined) return { outcome: "no answer", answers: [], isSticky: false };
  // Nothing listens on the nodes.
  if (isNode(holder)) return { outcome: "refused", answers: [], isSticky: false };
  const source = holder === "router" ? sourceOutside(asking, packet.source) : packet.source;
  return { outcome: "answered", answers: [answerOf(asking, holder, source)], isSticky: false };
}

/**
 * Returns the source address of a client outside of the cluster: a pod leaves the cluster with its node's address
 * (POD-19).
 */
function sourceOutside({ plan, client, family }: Asking, source: Address): Address {
  const own = plan.pods.find(({ name }) => name === client);
  return own === undefined ? source : plan.nodes[own.node].uplink[family];
}

/**
 * Returns the nodes whose Services see a packet, in their order: the client's own, or the one that it enters by, and
 * the destination's.
 */
function wayOf(
  { pods }: Plan,
  client: ClientName,
  holder: string | undefined,
): readonly (readonly [NodeName, Entry])[] {
  const destination = NODES.find((node) => node === holder) ?? pods.find(({ name }) => name === holder)?.node;
  if (client === "router") return holder === "router" ? [] : [[destination ?? "node1", "outside"]];
  const own = pods.find(({ name }) => name === client)?.node ?? "node1";
  const first = [own, isNode(client) ? "node" : "pod"] as const;
  return destination === undefined || destination === own ? [first] : [first, [destination, "outside"]];
}

function judged(asking: Asking, node: NodeName, source: Address, verdict: Exclude<Verdict, { kind: "pass" }>): End {
  const { plan, family } = asking;
  if (verdict.kind !== "translate") {
    return { outcome: verdict.kind === "reject" ? "refused" : "no answer", answers: [], isSticky: false };
  }
  const answers = verdict.candidates.map(({ destination, masquerade }) => {
    const pod = plan.pods.find(({ addresses }) => addresses[family] === destination.address);
    if (pod === undefined) throw new Error(`no pod has the endpoint ${formatAddress(destination.address)}`);
    const own = plan.nodes[node][pod.node === node ? "bridge" : "uplink"][family];
    return answerOf(asking, pod.name, masquerade.masqueraded ? own : source);
  });
  return { outcome: "answered", answers, isSticky: verdict.affinity.type !== "none" };
}

function answerOf({ plan, client }: Asking, by: string, source: Address): Answer {
  return { by, source: formatAddress(source), as: nameOfSource(plan, client, source) };
}

/** Returns the address from which the client's kernel sends: that of the link in its route. */
function sourceOf({ pods, nodes, router }: Plan, client: ClientName, family: Family, destination: Address): Address {
  const own = pods.find(({ name }) => name === client);
  if (own !== undefined) return own.addresses[family];
  const holder = pods.find(({ addresses }) => addresses[family] === destination);
  if (client === "router") return router[family];
  return nodes.node1[holder?.node === "node1" ? "bridge" : "uplink"][family];
}

function holderOf({ pods, nodes, router }: Plan, address: Address): string | undefined {
  const has = (addresses: Addresses): boolean => Object.values(addresses).includes(address);
  const pod = pods.find(({ addresses }) => has(addresses));
  if (pod !== undefined) return pod.name;
  if (has(router)) return "router";
  return NODES.find((node) => has(nodes[node].uplink) || has(nodes[node].bridge));
}

function isNode(name: string): boolean {
  return NODES.some((node) => node === name);
}

function worldsOf({ pods, nodes }: Plan, manifests: readonly object[]): Readonly<Record<NodeName, ServiceWorld>> {
  const store = storeOf(manifests);
  const worldOf = (nodeName: NodeName): ServiceWorld => ({
    nodeName,
    services: [...store.services.values()],
    endpointSlices: [...store.endpointSlices.values()],
    nodes: [...store.nodes.values()],
    localPods: new Set(pods.filter(({ node }) => node === nodeName).flatMap((pod) => Object.values(pod.addresses))),
    nodeAddresses: new Set([
      ...Object.values(nodes[nodeName].uplink),
      ...Object.values(nodes[nodeName].bridge),
      parseAddress("127.0.0.1"),
      parseAddress("::1"),
    ]),
    configuration: { nodePortAddresses: [], refuseExternalIps: false, tcpReset: false, clusterCidrs: [] },
  });
  return { node1: worldOf("node1"), node2: worldOf("node2") };
}

import assert from "node:assert/strict";
import {
  type Address,
  addressPlus,
  familyOf,
  formatAddress,
  parseAddress,
  FAMILIES,
} from "../../../kernel/ip/address.ts";
import { type Cidr, hostCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { type Flow, Prober, type ProbeResult } from "../../lab/probe/prober.ts";
import { connect, routeTo, type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { type ManifestEndpoint, SERVICE_PORT, TARGET_PORT } from "./manifest.ts";
import { ServicedNode, type ServicedNodeOptions, type ServicedPod } from "./serviced_node.ts";

export const TRANSPORTS = ["tcp", "udp", "sctp"] as const;

/** The longest wait for answers that have to come, on a busy machine. */
const PATIENCE_MILLISECONDS = 100_000;

/** An address of each family. */
export type Pair = Readonly<Record<4 | 6, Address>>;

/** Returns a pair of an IPv4 and an IPv6 address. */
export function pairOf(v4: string, v6: string): Pair {
  return { 4: parseAddress(v4), 6: parseAddress(v6) };
}

const STRANGER_MACS = [parseMac("02:00:00:00:05:01"), parseMac("02:00:00:00:05:02")] as const;

/** The cluster IPs of Services whose tests need no particular ones. */
export const CLUSTER_IPS = pairOf("10.96.0.10", "fd00:96::a");

/** Differences of flows from those of {@link TrafficLab.flows} without options. */
export interface FlowOptions {
  readonly port?: number;
  readonly transports?: readonly (typeof TRANSPORTS)[number][];
}

/** A place where probes can arrive. */
export interface Place {
  readonly namespace: LabNamespace;
}

/** Returns both addresses as texts, IPv4 first. */
export function textsOf(pair: Pair): readonly string[] {
  return FAMILIES.map((family) => formatAddress(pair[family]));
}

/** Returns the family of a result's flow. */
export function familyOfResult({ flow }: ProbeResult): 4 | 6 {
  return familyOf(flow.to.address);
}

/**
 * Two nodes that serve Services, a router between them, and pods that listen on {@link TARGET_PORT} of every protocol:
 * two on node1 and one on node2. Probes are sent from and to all of them, with rp_filter strict.
 */
export class TrafficLab implements Disposable {
  readonly lab: Lab;
  readonly nodes: TwoNodes;
  readonly here: ServicedNode;
  readonly there: ServicedNode;
  /** A pod of node1, as `near`. */
  readonly client: ServicedPod;
  readonly near: ServicedPod;
  /** A pod of node2. */
  readonly far: ServicedPod;
  readonly prober: Prober;

  constructor(name: string, bridgeNetfilter: boolean, options: ServicedNodeOptions = {}) {
    this.lab = createLab(`${name}-${bridgeNetfilter ? "on" : "off"}`);
    this.nodes = twoNodes(this.lab, { bridgeNetfilter, reversePathFilter: 1 });
    const { node1, node2 } = this.nodes;
    const podCidrs = [...node1.podCidrs, ...node2.podCidrs];
    this.here = new ServicedNode(this.lab, node1, podCidrs, options);
    this.there = new ServicedNode(this.lab, node2, podCidrs, options);
    this.prober = new Prober(this.lab);
    [this.client, this.near, this.far] = [this.pod("client"), this.pod("near"), this.pod("far", this.there)];
    // By default the kernel sends a sender one refusal a second; here each probe waits for its own.
    for (const { node } of [node1, node2]) {
      for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) node.writeSysctl(key, "0");
    }
  }

  /** Attaches one more pod that listens. */
  pod(name: string, on = this.here): ServicedPod {
    const pod = on.pod(name);
    for (const family of FAMILIES) {
      for (const transport of TRANSPORTS) {
        this.prober.listen(transport, { ...pod, address: pod.addresses[family], port: TARGET_PORT });
      }
    }
    return pod;
  }

  /** Makes the router send packets for these addresses to a node. */
  route(pairs: readonly Pair[], to: WiredNode = this.nodes.node1): void {
    for (const pair of pairs) {
      for (const family of FAMILIES) {
        const gateway = to.addresses[family === 4 ? 0 : 1];
        this.nodes.router.route.request(newRoute(routeTo(hostCidr(pair[family]), gateway)));
      }
    }
  }

  /**
   * Returns a machine behind the router, which has the first of these addresses on that link; the next ones are its
   * own.
   */
  stranger(name: string, first: Pair): LabNamespace {
    const namespace = this.lab.namespace(name);
    const addresses = (offset: bigint): readonly Cidr[] =>
      FAMILIES.map((family) => ({
        address: addressPlus(first[family], offset) ?? first[family],
        prefixLength: family === 4 ? 30 : 64,
      }));
    const router = {
      namespace: this.nodes.router,
      link: `to-${name}`,
      mac: STRANGER_MACS[0],
      addresses: addresses(0n),
    };
    connect(router, { namespace, link: "eth0", mac: STRANGER_MACS[1], addresses: addresses(1n) });
    for (const family of FAMILIES) namespace.route.request(newRoute(routeTo(undefined, first[family])));
    return namespace;
  }

  /** Returns pods as endpoints of manifests. */
  at(...pods: readonly ServicedPod[]): readonly ManifestEndpoint[] {
    return pods.flatMap((pod) =>
      FAMILIES.map((family) => ({
        address: pod.addresses[family],
        nodeName: pod === this.far ? "node2" : "node1",
      })),
    );
  }

  /** Returns a flow of each family and protocol. */
  flows(from: LabNamespace, to: Pair, { port = SERVICE_PORT, transports = TRANSPORTS }: FlowOptions = {}): Flow[] {
    return FAMILIES.flatMap((family) =>
      transports.map((protocol) => ({ protocol, from, to: { address: to[family], port } })),
    );
  }

  addressesOf(node: "node1" | "node2"): Pair {
    const [v4, v6] = this.nodes[node].addresses;
    return { 4: v4, 6: v6 };
  }

  /** Returns the addresses of a node's bridge. */
  gatewaysOf(node: "node1" | "node2"): Pair {
    const [v4, v6] = this.nodes[node].gateways;
    return { 4: v4, 6: v6 };
  }

  /** The router's addresses on its link to node1. */
  get outside(): Pair {
    const [v4, v6] = this.nodes.node1.routerAddresses;
    return { 4: v4, 6: v6 };
  }

  /**
   * Probes flows, every one of which has to reach one of these places, with these source addresses if any are given.
   */
  async reach(flows: readonly Flow[], places: readonly Place[], source?: Pair): Promise<readonly ProbeResult[]> {
    const results = await this.prober.run(flows, { timeoutMilliseconds: PATIENCE_MILLISECONDS });
    const names = places.map(({ namespace }) => namespace);
    const wrong = results.filter(
      (one) =>
        !one.reached ||
        !names.some((namespace) => namespace === one.seenBy) ||
        (source !== undefined && one.seenSource !== source[familyOfResult(one)]),
    );
    assert.deepEqual(wrong.map(textOf), []);
    return results;
  }

  /** Repeats {@link reach} until each place has been reached in each family. */
  async reachAll(flows: readonly Flow[], places: readonly Place[], source?: Pair): Promise<void> {
    const missing = new Set(FAMILIES.flatMap((family) => places.map(({ namespace }) => `${namespace.name} ${family}`)));
    // The probability that one of two pods is missed in thirty rounds is one in a thousand million.
    for (let round = 0; round < 30 && missing.size > 0; round++) {
      for (const result of await this.reach(flows, places, source)) {
        missing.delete(`${result.seenBy?.name} ${familyOfResult(result)}`);
      }
    }
    assert.deepEqual([...missing], []);
  }

  /** Probes flows, every one of which has to fail. */
  async fail(flows: readonly Flow[], timeoutMilliseconds = 400): Promise<readonly ProbeResult[]> {
    const results = await this.prober.run(flows, { timeoutMilliseconds });
    assert.deepEqual(results.filter(({ reached }) => reached).map(textOf), []);
    return results;
  }

  /**
   * Probes flows, every one of which node1 has to drop for a reason, without an answer; only the node's own sendto(2)
   * reports it.
   */
  async silent(flows: readonly Flow[], reason: string): Promise<void> {
    const before = this.here.dropped(reason);
    const results = await this.fail(flows);
    const isSilent = ({ why, seenBy, flow }: ProbeResult): boolean =>
      seenBy === undefined &&
      (why.startsWith("no answer") || (flow.from === this.nodes.node1.node && /not permitted/.test(why)));
    assert.deepEqual(results.filter((result) => !isSilent(result)).map(textOf), []);
    assert.ok(this.here.dropped(reason) - before >= flows.length, `${reason}: too few drops are counted`);
  }

  /**
   * Probes flows, every one of which has to be refused. The sockets of SCTP probes are raw and receive no refusal; a
   * datagram of the node itself is refused by sendto(2), a connection of it at the second SYN, a second later (NE-07).
   */
  async refused(flows: readonly Flow[]): Promise<void> {
    await this.fail(flows.filter(({ protocol }) => protocol === "sctp"));
    const heard = await this.fail(
      flows.filter(({ protocol }) => protocol !== "sctp"),
      PATIENCE_MILLISECONDS,
    );
    assert.deepEqual(heard.filter(({ why }) => !/refused|not permitted/.test(why)).map(textOf), []);
  }

  [Symbol.dispose](): void {
    this.here[Symbol.dispose]();
    this.there[Symbol.dispose]();
    this.lab.destroy();
  }
}

/** Describes a result: the protocol, the sender, the destination, and what the receiver saw. */
function textOf({ flow, why, seenBy, seenSource }: ProbeResult): string {
  const seen = seenBy === undefined ? "" : `seen by ${seenBy.name}`;
  const source = seenSource === undefined ? "" : `from ${formatAddress(seenSource)}`;
  const { protocol, from, to } = flow;
  return `${protocol} ${from.name} to ${formatAddress(to.address)} port ${to.port}: ${[why, seen, source].filter(Boolean).join(", ")}`;
}

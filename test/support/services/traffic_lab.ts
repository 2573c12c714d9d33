import assert from "node:assert/strict";
import type { Address } from "../../../kernel/ip/address.ts";
import { addressPlus, familyOf, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { hostCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import type { Lab } from "../../lab/lab.ts";
import { createLab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Flow, ProbeResult } from "../../lab/probe/prober.ts";
import { Prober } from "../../lab/probe/prober.ts";
import type { TwoNodes, WiredNode } from "../../lab/topology.ts";
import { connect, routeTo, twoNodes } from "../../lab/topology.ts";
import type { ManifestEndpoint } from "./manifest.ts";
import { SERVICE_PORT, TARGET_PORT } from "./manifest.ts";
import type { ServicedNodeOptions, ServicedPod } from "./serviced_node.ts";
import { ServicedNode } from "./serviced_node.ts";

export const FAMILIES = [4, 6] as const;
export const TRANSPORTS = ["tcp", "udp", "sctp"] as const;

/** For answers that have to come: as long as a busy machine may need. */
const PATIENCE_MILLISECONDS = 20_000;

/** An address of each family. */
export type Pair = Readonly<Record<4 | 6, Address>>;

/** Of IPv4 and of IPv6. */
export function pairOf(v4: string, v6: string): Pair {
  return { 4: parseAddress(v4), 6: parseAddress(v6) };
}

const STRANGER_MACS = [parseMac("02:00:00:00:05:01"), parseMac("02:00:00:00:05:02")] as const;

/** The cluster IPs of Services whose tests need no particular ones. */
export const CLUSTER_IPS = pairOf("10.96.0.10", "fd00:96::a");

/** What distinguishes flows of {@link TrafficLab.flows}. */
export interface FlowOptions {
  readonly port?: number;
  readonly transports?: readonly (typeof TRANSPORTS)[number][];
}

/** Where probes can arrive. */
export interface Place {
  readonly namespace: LabNamespace;
}

/** The texts of both addresses, IPv4 first. */
export function textsOf(pair: Pair): readonly string[] {
  return FAMILIES.map((family) => formatAddress(pair[family]));
}

/** The family of a result's flow. */
export function familyOfResult({ flow }: ProbeResult): 4 | 6 {
  return familyOf(flow.to.address);
}

/**
 * Two nodes that serve Services, a router between them, and pods that listen on {@link TARGET_PORT} of every protocol:
 * two on node1 and one on node2. Packets are probed from and to all of them, with rp_filter strict.
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
    this.prober = new Prober(this.lab.calls);
    [this.client, this.near, this.far] = [this.pod("client"), this.pod("near"), this.pod("far", this.there)];
    // The kernel tells one sender of one refusal a second; here each probe waits for its own.
    for (const { node } of [node1, node2]) {
      for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) node.writeSysctl(key, "0");
    }
  }

  /** One more pod that listens. */
  pod(name: string, on = this.here): ServicedPod {
    const pod = on.pod(name);
    for (const family of FAMILIES) {
      for (const transport of TRANSPORTS) {
        this.prober.listen(transport, { ...pod, address: pod.addresses[family], port: TARGET_PORT });
      }
    }
    return pod;
  }

  /** Has the router send what is for these addresses to a node. */
  route(pairs: readonly Pair[], to: WiredNode = this.nodes.node1): void {
    for (const pair of pairs) {
      for (const family of FAMILIES) {
        const gateway = to.addresses[family === 4 ? 0 : 1];
        this.nodes.router.route.request(newRoute(routeTo(hostCidr(pair[family]), gateway)));
      }
    }
  }

  /** A machine behind the router, which has the first of these addresses on that link; the next ones are its own. */
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

  /** Pods as endpoints of manifests. */
  at(...pods: readonly ServicedPod[]): readonly ManifestEndpoint[] {
    return pods.flatMap((pod) =>
      FAMILIES.map((family) => ({
        address: pod.addresses[family],
        nodeName: pod === this.far ? "node2" : "node1",
      })),
    );
  }

  /** A flow of each family and protocol. */
  flows(from: LabNamespace, to: Pair, { port = SERVICE_PORT, transports = TRANSPORTS }: FlowOptions = {}): Flow[] {
    return FAMILIES.flatMap((family) =>
      transports.map((protocol) => ({ protocol, from, to: { address: to[family], port } })),
    );
  }

  addressesOf(node: "node1" | "node2"): Pair {
    const [v4, v6] = this.nodes[node].addresses;
    return { 4: v4, 6: v6 };
  }

  /** The addresses of a node's bridge. */
  gatewaysOf(node: "node1" | "node2"): Pair {
    const [v4, v6] = this.nodes[node].gateways;
    return { 4: v4, 6: v6 };
  }

  /** The router's addresses on its link to node1. */
  get outside(): Pair {
    const [v4, v6] = this.nodes.node1.routerAddresses;
    return { 4: v4, 6: v6 };
  }

  /** Measures flows, every one of which has to get to one of these places, as from these addresses if any are given. */
  async reach(flows: readonly Flow[], places: readonly Place[], source?: Pair): Promise<readonly ProbeResult[]> {
    const results = await this.prober.run(flows, { timeoutMilliseconds: 5000 });
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

  /** As {@link reach}, for as many rounds as it takes until each place has been reached in each family. */
  async reachAll(flows: readonly Flow[], places: readonly Place[], source?: Pair): Promise<void> {
    const missing = new Set(FAMILIES.flatMap((family) => places.map(({ namespace }) => `${namespace.name} ${family}`)));
    // Of two pods one stays out of thirty rounds one time in a thousand million.
    for (let round = 0; round < 30 && missing.size > 0; round++) {
      for (const result of await this.reach(flows, places, source)) {
        missing.delete(`${result.seenBy?.name} ${familyOfResult(result)}`);
      }
    }
    assert.deepEqual([...missing], []);
  }

  /** Measures flows, every one of which has to fail. */
  async fail(flows: readonly Flow[], timeoutMilliseconds = 400): Promise<readonly ProbeResult[]> {
    const results = await this.prober.run(flows, { timeoutMilliseconds });
    assert.deepEqual(results.filter(({ reached }) => reached).map(textOf), []);
    return results;
  }

  /**
   * Measures flows, every one of which has to be dropped on node1 for a reason, without a word; but the node's own
   * sendto(2) says so.
   */
  async silent(flows: readonly Flow[], reason: string): Promise<void> {
    const before = this.here.dropped(reason);
    const results = await this.fail(flows);
    const isSilent = ({ why, seenBy, flow }: ProbeResult): boolean =>
      seenBy === undefined &&
      (why.startsWith("no answer") || (flow.from === this.nodes.node1.node && /not permitted/.test(why)));
    assert.deepEqual(results.filter((result) => !isSilent(result)).map(textOf), []);
    assert.ok(this.here.dropped(reason) - before >= flows.length, `${reason}: too few are counted`);
  }

  /**
   * Measures flows, every one of which has to be refused. The sockets of SCTP probes are raw and hear of no refusal; a
   * datagram of the node itself is refused by sendto(2), a connection of it by the second SYN, a second later (NE-07).
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
    this.prober.close();
    this.here[Symbol.dispose]();
    this.there[Symbol.dispose]();
    this.lab.destroy();
  }
}

/** A result in words: what, from whom to whom, and what was seen of it. */
function textOf({ flow, why, seenBy, seenSource }: ProbeResult): string {
  const seen = seenBy === undefined ? "" : `seen by ${seenBy.name}`;
  const source = seenSource === undefined ? "" : `from ${formatAddress(seenSource)}`;
  const { protocol, from, to } = flow;
  return `${protocol} ${from.name} to ${formatAddress(to.address)} port ${to.port}: ${[why, seen, source].filter(Boolean).join(", ")}`;
}

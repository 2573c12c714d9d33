import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { type Address, type Family, formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { UPLINK } from "../../lab/topology.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { requireKernel } from "../../support/privilege.ts";
import { type RoutedNode, RouteLab } from "../../support/routes/route_lab.ts";
import { listOf, serviceObjects } from "../../support/services/manifest.ts";
import { droppedPackets } from "../../support/nftables/dropped_packets.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const POD_PORT = 8080;
/** Node ports: of a Service that leads to another one's at the next node, and of one with policy Local. */
const PORTS = { there: 30_001, back: 30_002, local: 30_004, bridge: 30_041, further: 30_051 } as const;
/** Further addresses of the first two nodes, which no object names. */
const FURTHER = ["172.31.0.1", "172.31.0.2"] as const;
/** External IPs, which the network routes to the first and to the second node. */
const EXTERNAL = { there: "198.51.100.9", back: "198.51.100.10" } as const;
/** The port of programs on nodes, and of a Service that has them as its endpoints and nodes' addresses as external IPs. */
const HOST_PORT = 8080;
/** A Service whose endpoint is the node port of another one, which leads to a pod: no circle. */
const HONEST = { first: 30_011, second: 30_012 } as const;

interface Endpoint {
  readonly node: RoutedNode;
  readonly address: Readonly<Partial<Record<Family, Address>>>;
  readonly port: number;
}

interface ServiceOptions {
  readonly protocol?: "UDP" | "TCP";
  readonly policy?: "Cluster" | "Local";
  readonly externalIPs?: readonly string[];
  readonly port?: number;
}

/** A Service of both families with a node port, and its slices. */
function nodePortService(
  number: number,
  nodePort: number,
  endpoints: readonly Endpoint[],
  { protocol = "UDP", policy = "Cluster", externalIPs = [], port = 80 }: ServiceOptions = {},
): readonly object[] {
  return serviceObjects(
    `default/s${number}`,
    [`10.96.0.${number}`, `fd00:10:96::${number}`],
    [{ protocol, port, targetPort: endpoints[0]?.port ?? port, nodePort }],
    endpoints.map(({ node, address }) => ({ addresses: address, nodeName: node.name })),
    { externalTrafficPolicy: policy, externalIPs },
  );
}

/** Whether a frame is a datagram itself, and not an ICMP message that quotes one, such as a redirect. */
function isDatagram(frame: Uint8Array): boolean {
  const isIpv4 = frame[12] === 0x08 && frame[13] === 0;
  return frame[14 + (isIpv4 ? 9 : 6)] === 17;
}

describe("attacks by Services that lead packets in a circle", function () {
  this.timeout(300_000);
  let on: RouteLab;
  const links: FrameSocket[] = [];

  before(async function () {
    requireKernel(this);
    on = new RouteLab("service-loops");
    const [near, next] = on.nodes;
    const at = (node: RoutedNode, port: number, named = node): Endpoint => ({
      node: named,
      address: node.addresses,
      port,
    });
    const bridge = (node: RoutedNode, port: number): Endpoint => {
      const [v4, v6] = node.wired.gateways;
      return { node, address: { 4: v4, 6: v6 }, port };
    };
    const further = (node: RoutedNode, text: string, port: number): Endpoint => {
      return { node, address: { 4: parseAddress(text) }, port };
    };
    const external = (node: RoutedNode, text: string): Endpoint => ({
      node,
      address: { 4: parseAddress(text) },
      port: 80,
    });
    const objects = [
      ...nodePortService(1, PORTS.there, [at(next, PORTS.back)]),
      ...nodePortService(2, PORTS.back, [at(near, PORTS.there)]),
      // With policy Local each node has the other one as its local endpoint.
      ...nodePortService(3, PORTS.local, [at(near, PORTS.local, next), at(next, PORTS.local, near)], {
        policy: "Local",
      }),
      ...nodePortService(10, PORTS.bridge, [bridge(next, PORTS.bridge + 1)]),
      ...nodePortService(11, PORTS.bridge + 1, [bridge(near, PORTS.bridge)]),
      ...nodePortService(12, PORTS.further, [further(next, FURTHER[1], PORTS.further + 1)]),
      ...nodePortService(13, PORTS.further + 1, [further(near, FURTHER[0], PORTS.further)]),
      ...nodePortService(7, 30_021, [external(next, EXTERNAL.back)], { externalIPs: [EXTERNAL.there] }),
      ...nodePortService(8, 30_022, [external(near, EXTERNAL.there)], { externalIPs: [EXTERNAL.back] }),
      ...nodePortService(9, 30_031, [at(near, HOST_PORT), at(next, HOST_PORT)], {
        protocol: "TCP",
        externalIPs: [near, next].flatMap(({ addresses }) =>
          FAMILIES.map((family) => formatAddress(addresses[family])),
        ),
        port: HOST_PORT,
      }),
      ...nodePortService(5, HONEST.first, [at(next, HONEST.second)], { protocol: "TCP" }),
      ...nodePortService(6, HONEST.second, [{ node: next, address: next.podAddresses, port: POD_PORT }], {
        protocol: "TCP",
      }),
    ];
    for (const [node, address] of [
      [near, EXTERNAL.there],
      [next, EXTERNAL.back],
    ] as const)
      on.router.exec("ip", ["route", "add", address, "via", formatAddress(node.addresses[4])]);
    for (const [index, [node, other]] of [[near, next] as const, [next, near] as const].entries()) {
      node.wired.node.exec("ip", ["addr", "add", `${FURTHER[index]}/32`, "dev", "lo"]);
      const via = formatAddress(other.addresses[4]);
      node.wired.node.exec("ip", ["route", "add", FURTHER[1 - index] ?? "", "via", via]);
    }
    on.put("services.json", listOf(objects));
    await on.start();
    for (const { wired } of [near, next]) links.push(new FrameSocket(wired.node, UPLINK));
  });
  after(() => {
    for (const link of links) link.close();
    on?.[Symbol.dispose]();
  });

  /** The beginnings of circles: where a datagram from outside is sent to. */
  const beginnings = (): Readonly<Record<string, Endpoint["address"] & { readonly port: number }>> => {
    const { addresses } = on.nodes[0];
    return {
      "two Services with node ports": { ...addresses, port: PORTS.there },
      "a Service with policy Local": { ...addresses, port: PORTS.local },
      "two Services that point at bridges": { ...addresses, port: PORTS.bridge },
      "two Services that point at further addresses": { 4: addresses[4], port: PORTS.further },
      "two Services with external IPs": { 4: parseAddress(EXTERNAL.there), port: 80 },
    };
  };

  /** Sends some datagrams from outside; returns how often nodes received one of them, at most. */
  async function visits(family: Family, address: Address, port: number): Promise<number> {
    const counts = new Map<Uint8Array, number>();
    const count = (): number => {
      for (const link of links)
        for (const frame of link.received())
          for (const token of counts.keys())
            if (isDatagram(frame) && carries(frame, token)) counts.set(token, (counts.get(token) ?? 0) + 1);
      return Math.max(...counts.values());
    };
    for (let i = 0; i < 4; i++) {
      const token = newToken();
      counts.set(token, 0);
      const socket = ProbeSocket.open(on.router, family, SocketType.DATAGRAM);
      assert.ok(socket.sendTo(token, { address, port }) > 0);
      socket.close();
    }
    await eventually(() => [...counts.values()].every((number) => number > 0) || (count(), false));
    await pause(300);
    return count();
  }

  const dropped = (): number =>
    on.nodes
      .map(({ wired }) => wired.node.exec("nft", ["--terse", "list", "table", "inet", "drawbridge"]))
      .reduce((sum, listing) => sum + droppedPackets(listing, DropReason.LOOP), 0);

  const to = (from: Flow["from"], address: Address, port: number): Flow => ({
    protocol: "tcp",
    from,
    to: { address, port },
  });

  it("GUARD-19: a node port that leads to the node port of another Service is answered, and so is a cluster IP", async () => {
    const [near] = on.nodes;
    const flows = FAMILIES.flatMap((family) => [
      to(on.router, near.addresses[family], HONEST.first),
      to(near.pod, parseAddress(family === 4 ? "10.96.0.5" : "fd00:10:96::5"), 80),
    ]);
    await on.untilReached(flows);
    assert.equal(dropped(), 0);
  });

  it("GUARD-19: each connection to a node's address as an external IP finds a program of some node, though it may go back and forth", async () => {
    const [near] = on.nodes;
    const flows = FAMILIES.flatMap((family) =>
      Array.from({ length: 16 }, () => to(on.router, near.addresses[family], HOST_PORT)),
    );
    const results = await on.prober.run(flows, { timeoutMilliseconds: 20_000 });
    assert.deepEqual(
      results.filter(({ reached }) => !reached).map(({ why }) => why),
      [],
    );
  });

  it("GUARD-19: no packet goes in a circle of Services from node to node", async () => {
    const each = async (examine: (what: string, seen: () => Promise<number>) => Promise<void>): Promise<void> => {
      for (const [title, { port, ...addresses }] of Object.entries(beginnings())) {
        for (const family of FAMILIES) {
          const { [family]: address } = addresses;
          if (address !== undefined) await examine(`${title}, IPv${family}`, () => visits(family, address, port));
        }
      }
    };
    await each(async (what, seen) => {
      const before = dropped();
      const times = await seen();
      assert.ok(times >= 1 && times <= 2, `${what}: nodes received it ${times} times`);
      assert.ok(dropped() > before, `${what}: counted`);
    });
    // No daemon restores the rules that the test removes.
    await Promise.all(on.nodes.map(({ policyd }) => policyd.kill()));
    for (const { wired } of on.nodes)
      for (const family of FAMILIES)
        wired.node.exec("nft", ["flush", "chain", "inet", "drawbridge", `service_loops${family}`]);
    await each(async (what, seen) => {
      const times = await seen();
      assert.ok(times > 10, `${what}: without the rules nodes received it ${times} times`);
    });
  });
});

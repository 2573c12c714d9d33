import assert from "node:assert/strict";
import {
  type Address,
  addressToBytes,
  type Family,
  familyOf,
  formatAddress,
  parseAddress,
  FAMILIES,
} from "../../../kernel/ip/address.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import { tunnelMac } from "../../../policyd/routes/tunnel_mac.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import { encodeFrame, encodeIp, encodeUdp, type IpPacket, IpProtocol } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { ProbeSocket, type Received, SocketType } from "../../lab/probe/socket.ts";
import { encodeError, TOO_BIG } from "../../support/ends/icmp_error.ts";
import { forgetMtus, learnedMtu, Query } from "../../support/ends/query.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { newToken } from "../../support/guard/token.ts";
import { requireKernel } from "../../support/privilege.ts";
import { listOf, serviceObjects } from "../../support/services/manifest.ts";
import { type RoutedNode, RouteLab } from "../../support/routes/route_lab.ts";
import { droppedPackets } from "../../support/nftables/dropped_packets.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const PORT = 9107;
/** The router's addresses on the link of node1 and node2. */
const ROUTER = { 4: parseAddress("192.0.2.254"), 6: parseAddress("2001:db8:2::254") } as const;
const NODE_PORT = 30_478;
const READER_PORT = 9108;
const POD_PORT = 8080;
const CLAIMING_IPS = { 4: "10.96.0.108", 6: "fd00:96::108" } as const;
/** The first byte of VXLAN's header: there is a VNI (RFC 7348, section 5). */
const HAS_VNI = 0x08;
const CLUSTER_IPS = { 4: "10.96.0.107", 6: "fd00:96::107" } as const;
/** VXLAN's header, with the flag of a VNI (RFC 7348, section 5). */
const VXLAN = [
  0x08,
  0,
  0,
  0,
  ...[TUNNEL.vni >> 16, TUNNEL.vni >> 8, TUNNEL.vni].map((byte) => byte & 0xff),
  0,
] as const;

/** An attempt to get a datagram to the tunnel of node3. */
interface Attack {
  readonly title: string;
  readonly from: LabNamespace;
  readonly to: Endpoint;
  /** The node that drops it. */
  readonly droppedAt: RoutedNode;
}

for (const outer of FAMILIES) {
  describe(`attacks on the tunnel between nodes, over IPv${outer}`, function () {
    this.timeout(300_000);
    let on: RouteLab;
    let victim: Readonly<Record<Family, ProbeSocket>>;

    before(async function () {
      requireKernel(this);
      on = new RouteLab(`tunnel-attacks-${outer}`, { nodeFamilies: [outer] });
      const { addresses, podAddresses } = on.nodes[2];
      const port = { name: "", protocol: "UDP", port: TUNNEL.port } as const;
      const published = [{ ...port, targetPort: TUNNEL.port, nodePort: NODE_PORT }];
      const tunnel = { addresses: { [outer]: addresses[outer] }, nodeName: "node3" };
      const externalIPs = on.nodes.map((node) => formatAddress(node.addresses[outer]));
      const claiming = [{ ...port, targetPort: READER_PORT }];
      const reader = { addresses: { [outer]: podAddresses[outer] }, nodeName: "node3" };
      const services = [
        ...serviceObjects("default/tunnel", [CLUSTER_IPS[outer]], published, [tunnel]),
        ...serviceObjects("default/claim", [CLAIMING_IPS[outer]], claiming, [reader], { externalIPs }),
      ];
      on.put("services.json", listOf(services));
      await on.start();
      const socket = (family: Family): ProbeSocket => {
        const opened = ProbeSocket.open(on.nodes[2].pod, family, SocketType.DATAGRAM);
        opened.bind({ address: on.nodes[2].podAddresses[family], port: PORT });
        return opened;
      };
      victim = { 4: socket(4), 6: socket(6) };
      await on.untilPodsReachPods();
    });
    after(() => {
      for (const family of FAMILIES) victim?.[family].close();
      on?.[Symbol.dispose]();
    });

    /** Sends a packet to the victim from the address of another pod, wrapped as node2 would; returns its token. */
    function attack({ from, to }: Attack, inner: Family): Uint8Array {
      const [, impersonated, { addresses, podAddresses }] = on.nodes;
      const token = newToken();
      const packet = encodeUdp(impersonated.podAddresses[inner], podAddresses[inner], PORT, token);
      const macs = { from: tunnelMac(impersonated.addresses[outer]), to: tunnelMac(addresses[outer]) };
      const socket = ProbeSocket.open(from, outer, SocketType.DATAGRAM);
      assert.ok(socket.sendTo(Uint8Array.of(...VXLAN, ...encodeFrame({ ...macs, ...encodeIp(packet) })), to) > 0);
      socket.close();
      return token;
    }

    /** Returns the address from which the victim got a token, or undefined if it has not come. */
    function sourceOf(token: Uint8Array, inner: Family): Address | undefined {
      const received = [...victim[inner].drain()].filter((one) => one.kind === "data");
      return received.find(({ data }) => Buffer.compare(data, token) === 0)?.from?.address;
    }

    const counted = ({ wired }: RoutedNode, reason: string): number =>
      droppedPackets(wired.node.exec("nft", ["--terse", "list", "table", "inet", "drawbridge"]), reason);
    const dropped = (at: RoutedNode): number => counted(at, DropReason.TUNNEL);

    it(`CLAIM-01: the tunnel over IPv${outer} carries all pods' packets; a daemon that served the Service would let a pod read them`, async () => {
      await on.untilPodsReachPods();
      const [near, , far] = on.nodes;
      await far.policyd.kill();
      // Without our defence the attack works: a daemon that serves the Service would load this.
      const { node } = far.wired;
      const [setting, strictness] = ["net/ipv4/conf/all/rp_filter", node.readSysctl("net/ipv4/conf/all/rp_filter")];
      node.writeSysctl(setting, "2");
      const ip = outer === 4 ? "ip" : "ip6";
      const pod = formatAddress(far.podAddresses[outer]);
      const to = `${outer === 4 ? pod : `[${pod}]`}:${READER_PORT}`;
      const own = formatAddress(far.addresses[outer]);
      const rule = `${ip} daddr ${own} udp dport ${TUNNEL.port} dnat ${ip} to ${to}`;
      node.exec("nft", ["insert", "rule", "inet", "drawbridge", "nat_prerouting", ...rule.split(" ")]);
      const reader = ProbeSocket.open(far.pod, outer, SocketType.DATAGRAM);
      reader.bind({ address: far.podAddresses[outer], port: READER_PORT });
      const readNow = (): number => [...reader.drain()].filter(({ kind }) => kind === "data").length;
      const flows = FAMILIES.map((family): Flow => {
        const address = far.podAddresses[family];
        return { protocol: "tcp", from: near.pod, to: { address, port: POD_PORT } };
      });
      const results = await on.prober.run(flows, { timeoutMilliseconds: 1000 });
      assert.deepEqual(
        results.map(({ reached }) => reached),
        flows.map(() => false),
      );
      let isRead = false;
      await eventually(() => {
        for (const one of reader.drain()) isRead ||= one.kind === "data" && one.data[0] === HAS_VNI;
        return isRead;
      });
      assert.ok(isRead, "the pod reads packets of other pods");
      node.writeSysctl(setting, strictness?.trim() ?? "0");
      // The next daemon does not serve the Service, though it is still there.
      await far.policyd.start(["--encapsulation=auto"]);
      await on.untilPodsReachPods();
      // These are the last packets by the earlier rule.
      readNow();
      await on.untilPodsReachPods();
      assert.equal(readNow(), 0);
      reader.close();
    });

    it("the rules stay in force without a daemon, and no daemon restores those that the next tests remove", async () => {
      await Promise.all(on.nodes.map(({ policyd }) => policyd.kill()));
      await on.untilPodsReachPods();
    });

    it(`GUARD-10: a UDP client of a node whose source port is VXLAN's gets its answers, beside a tunnel over IPv${outer}`, async () => {
      // The socket of the tunnel owns the port in its own family, so such a client can exist only in the other one.
      const family = outer === 4 ? 6 : 4;
      const [near, neighbour] = on.nodes;
      const client = ProbeSocket.open(near.wired.node, family, SocketType.DATAGRAM);
      client.bind({ address: near.addresses[family], port: TUNNEL.port });
      const servers = [
        { title: "a node", at: neighbour.wired.node, address: neighbour.addresses[family] },
        { title: "a pod of the node", at: near.pod, address: near.podAddresses[family] },
        // IPv4 to such a pod goes through the tunnel over IPv6, where a strict rp_filter drops the node's own address.
        ...(family === 6
          ? [{ title: "a pod of another node", at: neighbour.pod, address: neighbour.podAddresses[family] }]
          : []),
      ];
      for (const { title, at, address } of servers) {
        const server = ProbeSocket.open(at, family, SocketType.DATAGRAM);
        server.bind({ address, port: PORT + 1 });
        client.sendTo(newToken(), { address, port: PORT + 1 });
        const asker = (await datagramOf(server, `${title} gets the question`)).from;
        assert.ok(asker !== undefined);
        const answer = newToken();
        server.sendTo(answer, asker);
        const { data } = await datagramOf(client, `the client gets the answer of ${title}`);
        assert.deepEqual(Buffer.from(data), Buffer.from(answer));
        server.close();
      }
      client.close();
    });

    it(`GUARD-09: a forged tunnel packet over IPv${outer} that is not tracked (an administrator's notrack) is dropped`, async () => {
      const [, , far] = on.nodes;
      const forged = { from: on.router, to: { address: far.addresses[outer], port: TUNNEL.port } };
      const { node } = far.wired;
      node.exec("nft", ["add", "table", "inet", "administrator"]);
      node.exec("nft", "add chain inet administrator raw { type filter hook prerouting priority -300 ; }".split(" "));
      node.exec("nft", "add rule inet administrator raw udp dport 4789 notrack".split(" "));
      for (const inner of FAMILIES) {
        const before = dropped(far);
        const token = attack({ title: "untracked", ...forged, droppedAt: far }, inner);
        assert.ok(await eventually(() => dropped(far) > before), `IPv${inner} inside: not counted`);
        assert.equal(sourceOf(token, inner), undefined);
      }
      node.exec("nft", ["delete", "table", "inet", "administrator"]);
    });

    it(`ENDS-01: a pod that quotes its node's tunnel packets over IPv${outer} lowers the MTU of no path between nodes`, async () => {
      const [near, , far] = on.nodes;
      const { node } = near.wired;
      const kind = TOO_BIG[outer];
      const learned = (): number | undefined => learnedMtu(node, far.addresses[outer]);
      const refused = (): number => counted(near, DropReason.ERROR);
      /** Sends the error with a right guess of the node's port: there are 28,232, one second's packets. */
      const attackNode = async (): Promise<void> => {
        const quoted = await tunnelPacket(near, far);
        const { payload } = encodeError(near.podAddresses[outer], near.addresses[outer], kind, quoted);
        const socket = ProbeSocket.open(near.pod, outer, SocketType.RAW, outer === 4 ? 1 : 58);
        assert.ok(socket.sendTo(payload, { address: near.addresses[outer], port: 0 }) > 0);
        socket.close();
      };
      forgetMtus(node);
      await attackNode();
      assert.ok(await eventually(() => refused() === 1), "it is dropped");
      assert.equal(learned(), undefined);
      const rules = node.exec("nft", ["list", "chain", "inet", "drawbridge", "related"]);
      node.exec("nft", ["flush", "chain", "inet", "drawbridge", "related"]);
      await attackNode();
      assert.ok(await eventually(() => learned() === kind.mtu), "without the rules it is lower");
      node.exec("nft", ["-f", "-"], rules);
      forgetMtus(node);
    });

    it(`ENDS-06: a neighbour lowers the MTU of no path over IPv${outer} to a node on the link, and a router's error counts where it is on the path`, async () => {
      const [near, neighbour, far] = on.nodes;
      const { node } = near.wired;
      const kind = TOO_BIG[outer];
      /** Sends an error from the router, also on the link, about a query of node1 to a node or of that node to it. */
      const forge = async (to: RoutedNode, way: "asks" | "is asked"): Promise<void> => {
        const [asking, asked] = way === "asks" ? [near, to] : [to, near];
        const end = ({ wired, addresses }: RoutedNode) => ({ namespace: wired.node, address: addresses[outer] });
        using query = new Query({ from: end(asking), to: end(asked), port: PORT + 2 });
        await query.send();
        const quoted = way === "asks" ? query.packet : query.answer;
        const { payload } = encodeError(ROUTER[outer], near.addresses[outer], kind, quoted);
        const socket = ProbeSocket.open(on.router, outer, SocketType.RAW, outer === 4 ? 1 : 58);
        assert.ok(socket.sendTo(payload, { address: near.addresses[outer], port: 0 }) > 0);
        socket.close();
      };
      const learned = (to: RoutedNode): number | undefined => learnedMtu(node, to.addresses[outer]);
      for (const way of ["asks", "is asked"] as const) {
        const before = counted(near, DropReason.KNOWN_PATH);
        await forge(neighbour, way);
        assert.ok(await eventually(() => counted(near, DropReason.KNOWN_PATH) === before + 1), `node1 ${way}: dropped`);
        assert.equal(learned(neighbour), undefined);
        await forge(far, way);
        assert.ok(
          await eventually(() => learned(far) === kind.mtu),
          `node1 ${way}: on a routed path the error is believed`,
        );
        forgetMtus(node);
      }
      for (const way of ["asks", "is asked"] as const) {
        node.exec("nft", ["flush", "set", "inet", "drawbridge", `on_link_pair${outer}`]);
        await forge(neighbour, way);
        assert.ok(
          await eventually(() => learned(neighbour) === kind.mtu),
          `node1 ${way}: without the rules it is lower`,
        );
        forgetMtus(node);
      }
    });

    /** Returns a packet between two nodes' tunnels, as seen on a link of the first. */
    async function tunnelPacket(from: RoutedNode, to: RoutedNode): Promise<IpPacket> {
      using link = new FrameSocket(on.router, `to-${from.name}`);
      const client = ProbeSocket.open(from.pod, outer, SocketType.DATAGRAM);
      let packet: IpPacket | undefined;
      const isSeen = (): boolean => {
        client.sendTo(newToken(), { address: to.podAddresses[outer], port: PORT });
        for (const frame of link.received()) packet ??= udpPacketOf(frame, from.addresses[outer], to.addresses[outer]);
        return packet !== undefined;
      };
      await eventually(isSeen);
      client.close();
      assert.ok(packet !== undefined, "a tunnel packet leaves");
      return packet;
    }

    it(`GUARD-09: forged tunnel packets over IPv${outer} (VU#199397, CWE-940: a tunnel without authentication) of pods and strangers reach no pod`, async () => {
      const [near, , far] = on.nodes;
      const tunnel = { address: far.addresses[outer], port: TUNNEL.port };
      const attacks: readonly Attack[] = [
        { title: "a pod to another node", from: near.pod, to: tunnel, droppedAt: near },
        { title: "a pod to its own node", from: far.pod, to: tunnel, droppedAt: far },
        { title: "a stranger", from: on.router, to: tunnel, droppedAt: far },
        {
          title: "a pod through a Service",
          from: near.pod,
          to: { address: parseAddress(CLUSTER_IPS[outer]), port: TUNNEL.port },
          droppedAt: near,
        },
        {
          title: "a stranger through a node port, behind the node's address",
          from: on.router,
          to: { address: near.addresses[outer], port: NODE_PORT },
          droppedAt: near,
        },
      ];
      async function assertDropped(one: Attack, at: RoutedNode): Promise<void> {
        for (const inner of FAMILIES) {
          const before = dropped(at);
          const token = attack(one, inner);
          const has = await eventually(() => dropped(at) > before);
          assert.ok(has, `${one.title}, IPv${inner} inside: not counted on ${at.name}`);
          assert.equal(sourceOf(token, inner), undefined, one.title);
        }
      }
      const without = (chain: string, ...nodes: readonly RoutedNode[]): void => {
        for (const { wired } of nodes) wired.node.exec("nft", ["flush", "chain", "inet", "drawbridge", chain]);
      };

      for (const one of attacks) await assertDropped(one, one.droppedAt);
      without("tunnel_from_pods", near);
      // GUARD-17 keeps pods out of tunnels of other programs, which may use the same port.
      without("other_tunnels", near, far);
      const [first] = attacks;
      assert.ok(first !== undefined);
      await assertDropped(first, far);
      without("tunnel_to_node", far);
      for (const one of attacks) {
        for (const inner of FAMILIES) {
          const token = attack(one, inner);
          let seen: Address | undefined;
          const has = await eventually(() => (seen ??= sourceOf(token, inner)) !== undefined);
          assert.ok(has, `${one.title}, IPv${inner} inside: without the rules it arrives`);
          assert.equal(seen, on.nodes[1].podAddresses[inner], "from the forged address");
        }
      }
    });
  });
}

/** Returns the UDP packet that a frame carries, or undefined for any other. */
function udpPacketOf(frame: Uint8Array, from: Address, to: Address): IpPacket | undefined {
  const [family, size] = [familyOf(from), addressToBytes(from).length];
  const header = frame.subarray(14);
  const [sourceAt, length, protocol] = family === 4 ? [12, 20, header[9]] : [8, 40, header[6]];
  const ends = Buffer.from(header.subarray(sourceAt, sourceAt + 2 * size));
  const isBetween = ends.equals(Buffer.from([...addressToBytes(from), ...addressToBytes(to)]));
  if (protocol !== IpProtocol.UDP || !isBetween) return undefined;
  return { from, to, protocol, payload: header.slice(length) };
}

/** Waits for the next datagram of a socket. */
async function datagramOf(socket: ProbeSocket, expectation: string): Promise<Extract<Received, { kind: "data" }>> {
  let received: Received = socket.receive();
  await eventually(() => received.kind === "data" || (received = socket.receive()).kind === "data");
  assert.ok(received.kind === "data", expectation);
  return received;
}

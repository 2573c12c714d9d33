import assert from "node:assert/strict";
import { type Address, type Family, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { requireKernel } from "../../support/privilege.ts";
import { type RoutedNode, RouteLab } from "../../support/routes/route_lab.ts";
import { droppedPackets } from "../../support/nftables/dropped_packets.ts";
import { DropReason } from "../../../policyd/node/tables/drop_reasons.ts";

const PORT = 9110;
/** The tunnel of another add-on, as flannel makes it. */
const OTHER = { name: "flannel.1", vni: 1, port: 8472, mac: parseMac("02:00:00:00:f1:01") } as const;
/** VXLAN's header, with the flag of a VNI (RFC 7348, section 5). */
const HEADER = [0x08, 0, 0, 0, 0, 0, OTHER.vni, 0] as const;
/** The chain of our table that drops such packets. */
const CHAIN = "other_tunnels";
/** Tunnels without ports. */
const PORTLESS = { "IP in IP": 4, GRE: 47 } as const;
/** A VXLAN link on a port that no list has, and that only the target has. */
const WEAVE = { name: "vxlan-6784", port: 6784, mac: parseMac("02:00:00:00:f1:03") } as const;
/** Addresses that do not belong to a pod. */
const FORGED = { 4: parseAddress("10.244.99.9"), 6: parseAddress("fd00:244:99::9") } as const;

describe("attacks by pods on the tunnel of another add-on", function () {
  this.timeout(300_000);
  let on: RouteLab;
  let victim: Readonly<Record<Family, ProbeSocket>>;
  const tunnels: ProbeSocket[] = [];
  const received: { readonly data: Uint8Array; readonly from?: Endpoint | undefined }[] = [];

  before(async function () {
    requireKernel(this);
    on = new RouteLab("other-tunnels");
    await on.start();
    const [, target] = on.nodes;
    const { node } = target.wired;
    for (const { name, mac, port } of [OTHER, WEAVE]) {
      const link = ["type", "vxlan", "id", String(OTHER.vni), "dstport", String(port), "nolearning"];
      node.exec("ip", ["link", "add", name, "address", mac, ...link]);
      node.exec("ip", ["link", "set", name, "up"]);
    }
    const set = ["list", "set", "inet", "drawbridge", "tunnel_ports"];
    assert.ok(await eventually(() => node.exec("nft", set).includes(String(WEAVE.port))), "the daemon learns the port");
    const socket = (family: Family): ProbeSocket => {
      const opened = ProbeSocket.open(target.pod, family, SocketType.DATAGRAM);
      opened.bind({ address: target.podAddresses[family], port: PORT });
      return opened;
    };
    victim = { 4: socket(4), 6: socket(6) };
    await Promise.all(on.nodes.map(({ policyd }) => policyd.kill()));
  });
  after(() => {
    for (const socket of [...Object.values(victim ?? {}), ...tunnels]) socket.close();
    on?.[Symbol.dispose]();
  });

  /** Sends a packet with a forged source to the victim, wrapped for the other tunnel; returns its token. */
  function attack(from: LabNamespace, to: Endpoint, inner: Family): Uint8Array {
    const token = newToken();
    const packet = encodeUdp(FORGED[inner], on.nodes[1].podAddresses[inner], PORT, token);
    const { mac } = to.port === WEAVE.port ? WEAVE : OTHER;
    const frame = encodeFrame({ from: parseMac("02:00:00:00:f1:02"), to: mac, ...encodeIp(packet) });
    const socket = ProbeSocket.open(from, 4, SocketType.DATAGRAM);
    assert.ok(socket.sendTo(Uint8Array.of(...HEADER, ...frame), to) > 0);
    socket.close();
    return token;
  }

  /** Returns the address from which the victim got a token, or undefined if it has not come. */
  function sourceOf(token: Uint8Array, inner: Family): Address | undefined {
    for (const one of victim[inner].drain()) if (one.kind === "data") received.push(one);
    return received.find(({ data }) => Buffer.compare(data, token) === 0)?.from?.address;
  }

  const listing = ({ wired }: RoutedNode): string =>
    wired.node.exec("nft", ["list", "chain", "inet", "drawbridge", CHAIN]);
  const dropped = (node: RoutedNode): number => droppedPackets(listing(node), DropReason.OTHER_TUNNEL);
  const removeRules = ({ wired }: RoutedNode): void =>
    void wired.node.exec("nft", ["flush", "chain", "inet", "drawbridge", CHAIN]);

  /** Has a daemon write the rules of a node. */
  async function loadRules(node: RoutedNode, encapsulation: string): Promise<void> {
    removeRules(node);
    await node.policyd.start([`--encapsulation=${encapsulation}`]);
    assert.ok(await eventually(() => listing(node).includes(DropReason.OTHER_TUNNEL)), `${node.name}: rules`);
    // The rules stay in force, and no daemon restores those that the test removes.
    await node.policyd.kill();
  }

  /** A way into a tunnel of the target: sends a packet from a pod, and returns a function that tells whether it came. */
  interface Way {
    readonly title: string;
    readonly send: (from: LabNamespace) => () => boolean;
  }

  const byVxlan = (inner: Family, { port }: { readonly port: number }, at: "node" | "bridge" = "node"): Way => ({
    title: `VXLAN on port ${port} of the ${at}, IPv${inner} inside`,
    send: (from) => {
      const { addresses, wired } = on.nodes[1];
      const token = attack(from, { address: at === "node" ? addresses[4] : wired.gateways[0], port }, inner);
      return () => sourceOf(token, inner) === FORGED[inner];
    },
  });

  const byProtocol = (name: string, protocol: number, family: Family): Way => ({
    title: `${name} over IPv${family}`,
    send: (from) => {
      const { wired, addresses } = on.nodes[1];
      const socket = ProbeSocket.open(from, family, SocketType.RAW, protocol);
      const tunnel = ProbeSocket.open(wired.node, family, SocketType.RAW, protocol);
      const token = newToken();
      socket.sendTo(Uint8Array.of(...new Uint8Array(32), ...token), { address: addresses[family], port: 0 });
      socket.close();
      tunnels.push(tunnel);
      return () => [...tunnel.drain()].some((one) => one.kind === "data" && carries(one.data, token));
    },
  });

  for (const encapsulation of ["auto", "never"] as const) {
    it(`GUARD-17: a pod gets no packet into a tunnel of another add-on on its node or another one, encapsulation ${encapsulation}`, async () => {
      const [near, target] = on.nodes;
      const attackers = [near, target];
      // The lab has started with "auto".
      if (encapsulation !== "auto") await Promise.all(attackers.map((node) => loadRules(node, encapsulation)));
      // Where it is strict, the kernel drops forged sources of IPv4 by chance.
      for (const name of ["all", OTHER.name, WEAVE.name])
        target.wired.node.writeSysctl(`net/ipv4/conf/${name}/rp_filter`, "0");
      const protocols = FAMILIES.flatMap((family) =>
        Object.entries(PORTLESS).map(([name, protocol]) => byProtocol(name, protocol, family)),
      );
      const ways = [
        ...FAMILIES.flatMap((inner) =>
          [OTHER, WEAVE].flatMap((link) => (["node", "bridge"] as const).map((at) => byVxlan(inner, link, at))),
        ),
        ...protocols,
      ];
      // The target drops what the attacker's node does not know as a tunnel.
      const all = (): number => attackers.map(dropped).reduce((sum, one) => sum + one, 0);
      for (const attacker of attackers) {
        const before = all();
        const sent = ways.map(({ title, send }) => ({ title, hasCome: send(attacker.pod) }));
        const isCounted = await eventually(() => all() - before >= ways.length);
        const come = sent.flatMap(({ title, hasCome }) => (hasCome() ? [title] : []));
        assert.deepEqual(come, [], attacker.name);
        assert.ok(isCounted, `${attacker.name}: each packet is counted`);
        assert.equal(all() - before, ways.length, attacker.name);
      }
      attackers.forEach(removeRules);
      for (const attacker of attackers) {
        const sent = ways.map(({ title, send }) => ({ title, hasCome: send(attacker.pod) }));
        for (const { title, hasCome } of sent)
          assert.ok(await eventually(hasCome), `${attacker.name}, ${title}: without the rules it arrives`);
      }
    });
  }
});

import assert from "node:assert/strict";
import { type Address, familyOf, parseAddress } from "../../../kernel/ip/address.ts";
import type { MacAddress } from "../../../kernel/ip/mac.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";
import { UPLINK, type WiredNode } from "../../lab/topology.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { addressesOf, LOCALHOST_WAYS, LocalhostNode } from "../../support/host_ports/localhost_node.ts";
import { addressesIn } from "../../support/host_ports/masquerade.ts";
import { mapping, PORT, published } from "../../support/host_ports/published.ts";
import { UdpClient } from "../../support/host_ports/udp_client.ts";
import { requireBridgeNetfilter } from "../../support/privilege.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { until } from "../../support/until.ts";

/** A sender of frames to the node: its MAC address, that of the node's link there, and the sender's own addresses. */
interface Sender {
  readonly mac: MacAddress;
  readonly nodeMac: MacAddress;
  readonly addresses: readonly [Address, Address];
}

/** A datagram that must not reach a port of localhost, of the node itself or of a pod. */
interface LocalhostAttack {
  readonly title: string;
  readonly addresses: (sender: Sender, node: WiredNode) => { readonly from: Address; readonly to: Address };
  /**
   * Whether the kernel delivers it once `route_localnet` is set, by which the test shows that the frame is well-formed.
   */
  readonly isOpenedByRouteLocalnet: boolean;
}

const localhost4 = parseAddress("127.0.0.1");
const localhost6 = parseAddress("::1");
const other4 = parseAddress("127.8.9.10");
const mapped = parseAddress("::ffff:127.0.0.1");

function attack(
  title: string,
  addresses: (sender: Sender, node: WiredNode) => readonly [from: Address, to: Address],
  isOpenedByRouteLocalnet = false,
): LocalhostAttack {
  return {
    title,
    addresses: (sender, node) => {
      const [from, to] = addresses(sender, node);
      return { from, to };
    },
    isOpenedByRouteLocalnet,
  };
}

/** The attacks of CVE-2020-8558 and similar ones. */
const LOCALHOST_ATTACKS: readonly LocalhostAttack[] = [
  attack("to 127.0.0.1", ({ addresses: [own] }) => [own, localhost4], true),
  attack("to 127.8.9.10", ({ addresses: [own] }) => [own, other4], true),
  attack("to ::1", ({ addresses: [, own] }) => [own, localhost6]),
  attack("to ::ffff:127.0.0.1", ({ addresses: [, own] }) => [own, mapped]),
  attack("from 127.0.0.1 to 127.0.0.1", () => [localhost4, localhost4]),
  attack("from ::1 to ::1", () => [localhost6, localhost6]),
  attack("from 127.0.0.1 to an address of the node", (_, { addresses: [to] }) => [localhost4, to]),
  attack("from 0.0.0.0 to 127.0.0.1", () => [parseAddress("0.0.0.0"), localhost4]),
  attack("from 127.0.0.1 to the bridge's address", (_, { gateways: [to] }) => [localhost4, to]),
  attack("from an address of the node to 127.0.0.1", (_, { gateways: [from] }) => [from, localhost4]),
  attack("from ::1 to an address of the node", (_, { addresses: [, to] }) => [localhost6, to]),
];

const FENCE_PORT = 7991;

/** Opens a datagram socket that keeps everything that it has received. */
const listenerAt = (namespace: LabNamespace, address: Address, port: number) => {
  const socket = ProbeSocket.open(namespace, familyOf(address), SocketType.DATAGRAM);
  socket.bind({ address, port });
  const heard: Uint8Array[] = [];
  let isOpen = true;
  const all = (): readonly Uint8Array[] => {
    for (const next of socket.drain()) if (next.kind === "data") heard.push(next.data);
    return heard;
  };
  return {
    hasHeard: (token: Uint8Array): boolean => all().some((data) => carries(data, token)),
    count: (): number => all().length,
    [Symbol.dispose]: () => {
      if (isOpen) socket.close();
      isOpen = false;
    },
  };
};

const macOf = (namespace: LabNamespace, link: string): MacAddress =>
  namespace.link(link).mac ?? assert.fail(`${link} has no MAC address`);

for (const { hasDaemon, keeper, ...way } of LOCALHOST_WAYS) {
  describe(`attacks on host ports of localhost ${keeper}, ${way.title}`, function () {
    this.timeout(300_000);
    let lab: Lab;
    let on: LocalhostNode;
    let attacker: LabPod;

    before(async function () {
      if (way.bridgeNetfilter) requireBridgeNetfilter(this);
      lab = suiteLab(this, `lo-attacks-${hasDaemon ? "policyd" : "plugin"}-${way.short}`);
      on = new LocalhostNode(lab, way, hasDaemon);
      await on.start();
      attacker = lab.pod("attacker");
      addressesIn(on.attach(attacker));
    });

    let victim: LabPod;
    let addresses: readonly Address[];
    let senders: readonly (Sender & { readonly title: string; readonly link: FrameSocket })[];
    const port = 7990;

    before(() => {
      victim = lab.pod("victim");
      const mappings = ["127.0.0.1", "127.8.9.10", "::1"].map((hostIp) => mapping(port, "udp", hostIp));
      addresses = addressesIn(on.attach(victim, published(...mappings)));
      const hostMac = macOf(on.wired.node, hostLinkOf(attacker));
      const { router } = on.nodes;
      senders = [
        {
          title: "a pod by the bridge's MAC address",
          mac: macOf(attacker, "eth0"),
          nodeMac: macOf(on.wired.node, "cni0"),
          addresses: addressesOf(attacker),
          link: new FrameSocket(attacker, "eth0"),
        },
        {
          title: "a pod by its gateway's MAC address",
          mac: macOf(attacker, "eth0"),
          nodeMac: hostMac,
          addresses: addressesOf(attacker),
          link: new FrameSocket(attacker, "eth0"),
        },
        {
          title: "a neighbour on the uplink",
          mac: macOf(router, `to-${on.wired.node.name}`),
          nodeMac: macOf(on.wired.node, UPLINK),
          addresses: on.wired.routerAddresses,
          link: new FrameSocket(router, `to-${on.wired.node.name}`),
        },
      ];
    });

    after(() => {
      for (const { link } of senders ?? []) link.close();
    });

    /** Lets all senders send all attacks. @returns the attacks that the node and the pod receive */
    const hearing = async (): Promise<{ readonly node: readonly string[]; readonly pod: readonly string[] }> => {
      using node4 = listenerAt(on.wired.node, parseAddress("0.0.0.0"), port);
      using node6 = listenerAt(on.wired.node, parseAddress("::"), port);
      using fence4 = listenerAt(on.wired.node, on.wired.addresses[0], FENCE_PORT);
      const [own4, own6] = addresses;
      assert.ok(own4 !== undefined && own6 !== undefined);
      using victim4 = listenerAt(victim, own4, PORT);
      using victim6 = listenerAt(victim, own6, PORT);
      const sent: { readonly what: string; readonly token: Uint8Array }[] = [];
      for (const sender of senders) {
        const { title: who, mac: from, nodeMac: to, link } = sender;
        const send = (source: Address, destination: Address, toPort: number): Uint8Array => {
          const token = newToken();
          link.send(encodeFrame({ from, to, ...encodeIp(encodeUdp(source, destination, toPort, token)) }));
          return token;
        };
        for (const { title: what, addresses: ends } of LOCALHOST_ATTACKS) {
          const { from: source, to: destination } = ends(sender, on.wired);
          sent.push({ what: `${who}, ${what}`, token: send(source, destination, port) });
        }
        // The last datagram is allowed: when it arrives, the kernel has handled all before it.
        const fence = send(sender.addresses[0], on.wired.addresses[0], FENCE_PORT);
        assert.ok(await eventually(() => fence4.hasHeard(fence)), "what is allowed arrives");
      }
      const heardBy = (...listeners: readonly { hasHeard(token: Uint8Array): boolean }[]): readonly string[] =>
        sent.filter(({ token }) => listeners.some((one) => one.hasHeard(token))).map(({ what }) => what);
      return { node: heardBy(node4, node6), pod: heardBy(victim4, victim6) };
    };

    const setRouteLocalnet = (value: "0" | "1"): void => {
      for (const device of ["all", "cni0", UPLINK]) {
        on.wired.node.writeSysctl(`net/ipv4/conf/${device}/route_localnet`, value);
      }
    };

    const nothing = { node: [], pod: [] };

    it("GUARD-11: CVE-2020-8558: neither a pod nor a neighbour reaches a port of localhost, and route_localnet is off", async () => {
      for (const device of on.wired.node.exec("ls", ["/proc/sys/net/ipv4/conf"]).trim().split("\n")) {
        assert.equal(on.wired.node.readSysctl(`net/ipv4/conf/${device}/route_localnet`)?.trim(), "0", device);
      }
      assert.deepEqual(await hearing(), nothing);
    });

    it("GUARD-11: with route_localnet set by another program, pods and neighbours reach no pod's host port of localhost", async () => {
      setRouteLocalnet("1");
      try {
        const { node, pod } = await hearing();
        assert.deepEqual(pod, []);
        const opened = LOCALHOST_ATTACKS.filter((one) => one.isOpenedByRouteLocalnet);
        // The daemon's check of loopback addresses closes the node's own localhost. Without it the frames get through,
        // which shows that they are well-formed.
        const expected = hasDaemon
          ? []
          : senders.flatMap(({ title: who }) => opened.map(({ title: what }) => `${who}, ${what}`));
        assert.deepEqual(
          expected.filter((one) => !node.includes(one)),
          [],
        );
        if (hasDaemon) assert.deepEqual(node, []);
      } finally {
        setRouteLocalnet("0");
      }
    });

    it("GUARD-11: while the rules are flushed, no port of localhost is open, and no packet of localhost leaves the node", async () => {
      const [to = assert.fail("no address")] = addresses;
      using listening = listenerAt(victim, to, PORT);
      using client = new UdpClient(on.wired.node, localhost4);
      client.send(localhost4, port, 1);
      assert.ok(await eventually(() => listening.count() === 1), "the pod hears localhost before");
      await on.policyd?.kill();
      const rules = on.wired.node.ruleset();
      on.wired.node.exec("nft", ["flush", "ruleset"]);
      client.send(localhost4, port, 3);
      await on.prober.run([on.flow("icmp", to, 0)]);
      assert.equal(listening.count(), 1, "the pod hears nothing more of localhost");
      listening[Symbol.dispose]();
      assert.deepEqual(await hearing(), nothing);
      if (on.policyd === undefined) on.wired.node.exec("nft", ["-f", "-"], rules);
      else await on.policyd.start();
      using after = listenerAt(victim, to, PORT);
      await until(() => {
        client.send(localhost4, port, 1);
        return after.count() > 0;
      }, "the pod hears localhost again");
    });

    const hostLinkOf = (pod: LabPod): string => {
      const [, index = ""] = /eth0@if(\d+):/.exec(pod.exec("ip", ["-o", "link", "show", "eth0"])) ?? [];
      const [, name = ""] = new RegExp(`^${index}: ([^@:]+)`, "m").exec(on.wired.node.exec("ip", ["-o", "link"])) ?? [];
      return name;
    };
  });
}

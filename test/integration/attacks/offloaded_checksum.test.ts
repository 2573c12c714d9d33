import assert from "node:assert/strict";
import process from "node:process";
import { CHECKSUM_PROGRAM, filterChecksums } from "../../../kernel/bpf/checksum_filter.ts";
import { kernelChecksumProgram } from "../../../kernel/bpf/checksum_program.ts";
import { assembleBpf } from "../../../kernel/bpf/instruction.ts";
import { attachOwnProgram, hasOwnProgram, type OwnProgram, removeOwnProgram } from "../../../kernel/bpf/own_program.ts";
import { TX_CHECKSUM_OFFLOAD } from "../../../kernel/ethtool.ts";
import { type Address, FAMILIES, type Family, familyOf, formatAddress } from "../../../kernel/ip/address.ts";
import { encodeFrame, encodeIcmpv6, encodeIp, encodeTcp, encodeUdp, TcpFlag } from "../../lab/probe/frame.ts";
import { FrameSocket } from "../../lab/probe/frame_socket.ts";
import { TOKEN_SIZE } from "../../lab/probe/protocol.ts";
import { withoutOffload } from "../../lab/offload.ts";
import { UPLINK } from "../../lab/topology.ts";
import { eventually, type GuardedNode, type GuardedPod } from "../../support/guard/guarded_node.ts";
import { useGuardedNode } from "../../support/guard/guarded_suite.ts";
import { carries, newToken } from "../../support/guard/token.ts";
import { inTwo } from "../../support/policy/attacks/fragments.ts";
import { OPPOSITE_WAYS } from "../../support/guard/ways.ts";

const PORT = 9111;
const ETHERNET_HEADER = 14;
const IP_HEADER = { 4: 20, 6: 40 } as const;
const [SCTP, ESP] = [132, 50];
/** VIRTIO_NET_HDR_F_NEEDS_CSUM (include/uapi/linux/virtio_net.h). */
const NEEDS_CHECKSUM = 1;
/** The sum covers the frame from here on; the kernel accepts no smaller number (virtio_net_hdr_to_skb). */
const SUM_FROM = 20;
/** A pod's own tunnel: the packet within begins after UDP's header and VXLAN's, with a frame of its own. */
const INNER_UDP = 8 + 8 + ETHERNET_HEADER + 20;

/** Another program on the bridge, which keeps each frame from the programs after it (TC_ACT_OK). */
const LETS_PASS: OwnProgram = {
  name: "lets_pass",
  licence: "Apache-2.0",
  place: { frames: "received", priority: 1, handle: 1 },
};
const PASS = 0;

type Packet = ReturnType<typeof encodeIp>;

/** Returns a packet with a token, or its fragments. */
type Encode = (from: Address, to: Address, token: Uint8Array) => Packet | readonly Packet[];

/** A packet, and the place of the two bytes that its sender has written later, in each of its IP packets. */
interface Case {
  readonly title: string;
  readonly families?: readonly Family[];
  readonly packet: Encode;
  readonly place: (family: Family) => number;
  /** Whether the place is right in the whole datagram, which br_netfilter puts together before the bridge receives it. */
  readonly isPlaceOfWhole?: boolean;
  /** Whether the packet is a fragment, which Debian's kernels drop without the filter, too. */
  readonly isFragment?: true;
}

const udp: Encode = (from, to, token) => encodeIp(encodeUdp(from, to, PORT, token));
const tcp: Encode = (from, to, token) =>
  encodeIp(encodeTcp(from, to, { source: PORT, destination: PORT }, TcpFlag.SYN, token));
const other =
  (protocol: number): Encode =>
  (from, to, token) =>
    encodeIp({ from, to, protocol, payload: Uint8Array.of(...new Uint8Array(64), ...token) });
/** Six bytes of options: PadN with four bytes. */
const padding = Uint8Array.of(1, 4, 0, 0, 0, 0);
const optioned: Encode = (from, to, token) => encodeIp({ ...encodeUdp(from, to, PORT, token), hopByHop: padding });
let fragmentId = 0;
const fragmented: Encode = (from, to, token) =>
  inTwo(encodeUdp(from, to, PORT, Uint8Array.of(...token, ...new Uint8Array(128))), ++fragmentId, 64);
const echo: Encode = (from, to, token) => {
  const body = [0, 1, 0, 1, ...token, 0, 0];
  if (familyOf(from) === 6) return encodeIp(encodeIcmpv6(from, to, 128, body));
  return encodeIp({ from, to, protocol: 1, payload: Uint8Array.of(8, 0, 0, 0, ...body) });
};

/** Sends a datagram to a group on the link with an address, and fails unless it hears the datagram itself. */
const HEAR_OWN_MULTICAST = `
  const socket = require("node:dgram").createSocket({ type: "udp4" });
  const [, address] = process.argv;
  socket.bind(9112, () => {
    socket.addMembership("239.1.2.3", address);
    socket.setMulticastInterface(address);
    socket.send("heard", 9112, "239.1.2.3");
  });
  socket.on("message", () => process.exit(0));
  setTimeout(() => process.exit(1), 2000);
`;

const transport =
  (offset: number) =>
  (family: Family): number =>
    IP_HEADER[family] + offset;

const ATTACKS: readonly Case[] = [
  { title: "UDP's source port", packet: udp, place: transport(0) },
  { title: "UDP's destination port", packet: udp, place: transport(2) },
  { title: "UDP's length", packet: udp, place: transport(4) },
  { title: "TCP's destination port", packet: tcp, place: transport(2) },
  { title: "TCP's flags", packet: tcp, place: transport(12) },
  { title: "TCP's urgent pointer", packet: tcp, place: transport(18) },
  { title: "the end of the source", families: [6], packet: udp, place: () => 22 },
  { title: "the end of the destination", families: [6], packet: udp, place: () => 38 },
  { title: "the first bytes of ESP", packet: other(ESP), place: transport(2) },
  { title: "the kind of SCTP's first chunk", packet: other(SCTP), place: transport(12) },
  { title: "ICMP's type", packet: echo, place: transport(0) },
  { title: "ICMP's checksum", packet: echo, place: transport(2) },
  { title: "ICMP's data, as of the packet that an error quotes", packet: echo, place: transport(8 + TOKEN_SIZE) },
  {
    title: "the data of a first fragment",
    families: [4],
    packet: fragmented,
    place: transport(8 + TOKEN_SIZE),
    isPlaceOfWhole: true,
    isFragment: true,
  },
  { title: "the port in a first fragment", families: [4], packet: fragmented, place: transport(2), isFragment: true },
  { title: "the port after options", families: [6], packet: optioned, place: transport(8 + 2) },
  {
    title: "the place where TCP has its checksum, in the header's options",
    families: [6],
    packet: optioned,
    place: transport(4),
  },
];

const HONEST: readonly Case[] = [
  { title: "UDP's checksum", packet: udp, place: transport(6) },
  { title: "TCP's checksum", packet: tcp, place: transport(16) },
  { title: "SCTP's checksum", packet: other(SCTP), place: transport(8) },
  { title: "the checksum of UDP after options", families: [6], packet: optioned, place: transport(8 + 6) },
  {
    title: "the checksum of UDP within the pod's own VXLAN",
    packet: (from, to, token) => encodeIp(encodeUdp(from, to, PORT, Uint8Array.of(...new Uint8Array(64), ...token))),
    place: transport(INNER_UDP + 6),
  },
];

for (const way of OPPOSITE_WAYS) {
  describe(`attacks by a checksum that is written after the rules, ${way.title}`, function () {
    this.timeout(300_000);
    let on: GuardedNode;
    let router: FrameSocket;
    let pod: FrameSocket;

    useGuardedNode("checksum", way, (made) => {
      on = made;
      const { node } = on.wired;
      // As with a network card that cannot write checksums: the node's kernel does it when it sends the packet.
      withoutOffload(node, UPLINK, [TX_CHECKSUM_OFFLOAD]);
      router = new FrameSocket(on.nodes.router, `to-${node.name}`);
      pod = new FrameSocket(on.attacker.namespace, "eth0");
      pod.setUncut();
      on.load();
    });
    after(() => {
      router?.close();
      pod?.close();
    });

    const bridge = (): number => on.wired.node.link("cni0").index;
    const isFiltered = (): boolean => hasOwnProgram(on.wired.node.programs, CHECKSUM_PROGRAM, bridge());

    /** Sends a packet of a case; returns its two bytes, their place in the frame, and its token. */
    function send({ packet, place }: Case, { mac, gatewayMac, addresses }: GuardedPod, family: Family) {
      const to = on.wired.routerAddresses[family === 4 ? 0 : 1];
      const token = newToken();
      const at = ETHERNET_HEADER + place(family);
      const frames = [packet(addresses[family], to, token)]
        .flat()
        .map((one) => encodeFrame({ from: mac, to: gatewayMac, ...one }));
      const header = [NEEDS_CHECKSUM, 0, ...new Uint8Array(Uint16Array.of(0, 0, SUM_FROM, at - SUM_FROM).buffer)];
      for (const frame of frames) pod.send(Uint8Array.of(...header, ...frame));
      return { written: frames[0]?.subarray(at, at + 2) ?? assert.fail("a packet"), at, token };
    }

    /** Sends a plain packet, and returns the frames that leave the node until it has, which are all of those before it. */
    async function framesBefore(family: Family): Promise<readonly Uint8Array[]> {
      const token = newToken();
      const to = on.wired.routerAddresses[family === 4 ? 0 : 1];
      const { mac, gatewayMac, addresses, link } = on.attacker;
      link.send(encodeFrame({ from: mac, to: gatewayMac, ...encodeIp(encodeUdp(addresses[family], to, PORT, token)) }));
      const frames: Uint8Array[] = [];
      const hasLeft = (): boolean => {
        frames.push(...router.received());
        return frames.some((one) => carries(one, token));
      };
      assert.ok(await eventually(hasLeft), "an ordinary packet");
      return frames;
    }

    /** Returns whether a packet leaves the node, and whether its two bytes have changed. */
    async function outcome(one: Case, family: Family): Promise<"changed" | "as it was" | "dropped"> {
      router.received();
      const { written, at, token } = send(one, on.attacker, family);
      const frame = (await framesBefore(family)).find((candidate) => carries(candidate, token));
      if (frame === undefined) return "dropped";
      return Buffer.compare(frame.subarray(at, at + 2), written) === 0 ? "as it was" : "changed";
    }

    const each = async (cases: readonly Case[], expected: "changed" | "dropped"): Promise<void> => {
      const wrong: string[] = [];
      for (const one of cases) {
        for (const family of one.families ?? FAMILIES) {
          const seen = await outcome(one, family);
          if (seen !== expected) wrong.push(`${one.title}, IPv${family}: ${seen}`);
        }
      }
      assert.deepEqual(wrong, [], `not ${expected}`);
    };

    it(`GUARD-18: no two bytes of a pod's packet change after the rules, ${way.title}`, async () => {
      const { node } = on.wired;
      const filters = node.exec("tc", ["filter", "show", "dev", "cni0", "ingress"]);
      assert.equal(filters.match(/ handle /g)?.length, 1, "the plugin has attached the filter once, for all pods");
      assert.ok(isFiltered());
      const isWhole = way.bridgeNetfilter && !way.bypassBridge;
      await each(
        ATTACKS.filter(({ isPlaceOfWhole }) => !isWhole || isPlaceOfWhole !== true),
        "dropped",
      );
      removeOwnProgram(node.programs, CHECKSUM_PROGRAM, bridge());
      await each(
        ATTACKS.filter(({ isFragment }) => isFragment !== true),
        "changed",
      );
      assert.ok(filterChecksums(node.programs, bridge(), kernelChecksumProgram));
    });

    it(`GUARD-18: the filter comes before a program that lets all frames pass, ${way.title}`, async () => {
      const { node } = on.wired;
      removeOwnProgram(node.programs, CHECKSUM_PROGRAM, bridge());
      const code = assembleBpf([{ do: "set", to: 0, value: PASS }, { do: "exit" }]);
      assert.ok(attachOwnProgram(node.programs, LETS_PASS, code, bridge()));
      assert.ok(filterChecksums(node.programs, bridge(), kernelChecksumProgram));
      try {
        await each(ATTACKS.slice(0, 1), "dropped");
      } finally {
        removeOwnProgram(node.programs, LETS_PASS, bridge());
      }
    });

    it(`GUARD-18: checksums that the kernel or a network card writes at their own place pass, ${way.title}`, async () => {
      assert.ok(isFiltered());
      await each(HONEST, "changed");
    });

    it(`GUARD-18: the node hears its own multicast on the bridge, ${way.title}`, () => {
      assert.ok(isFiltered());
      const { node, gateways } = on.wired;
      node.exec(process.execPath, ["-e", HEAR_OWN_MULTICAST, formatAddress(gateways[0])]);
    });
  });
}

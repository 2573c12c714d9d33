import assert from "node:assert/strict";
import { endianness } from "node:os";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { encodeRequest, MessageFlag, type Request } from "../../../kernel/netlink/message.ts";
import { Writer } from "../../../kernel/netlink/writer.ts";
import { newAddress } from "../../../kernel/route/interface_address.ts";
import { changeLink, createBridge, createVeth, deleteLink } from "../../../kernel/route/link.ts";
import { setNeighbour } from "../../../kernel/route/neighbour.ts";
import { newRoute } from "../../../kernel/route/route.ts";
import { skip } from "../../support/privilege.ts";
import { type FlatMessage, type NestedPaths, readMessage } from "./attribute_reader.ts";

interface Golden {
  /** An iproute2 6.1 command, whose message was recorded by `strace -e write=all` on x64. */
  readonly command: string;
  readonly hex: string;
  readonly structSize: number;
  readonly nested?: NestedPaths;
  readonly ours: Request;
  /** Applies the intended differences to iproute2's message. */
  readonly difference?: (theirs: FlatMessage) => FlatMessage;
}

const host = { name: "dbv2", mac: parseMac("0a:58:0a:f4:01:07") };
const peer = { name: "eth1", mac: parseMac("0a:58:0a:f4:01:08"), netnsFd: 4 };

/** Adds the NUL to the kind, which iproute2 omits; the kernel accepts both. */
function withKind(theirs: FlatMessage): FlatMessage {
  return { ...theirs, attributes: { ...theirs.attributes, "18.1": `${theirs.attributes["18.1"]}00` } };
}

const goldens: readonly Golden[] = [
  {
    command:
      "ip link add dbv2 … master br0 numtxqueues 1 numrxqueues 1 type veth peer name eth1 … netns /run/netns/kt2",
    hex: "b400000010000506d3ca036b00000000000000000000000000000000000000000a0001000a580af401070000080004007805000008000a000200000008001f000100000008002000010000000900030064627632000000005c0012000800010076657468500002004c000100000000000000000000000000000000000a0001000a580af401080000080004007805000008001f0001000000080020000100000008001c0004000000090003006574683100000000",
    structSize: 16,
    nested: { 18: 0, 18.2: 0, "18.2.1": 16 },
    ours: createVeth({ host, peer, mtu: 1400, master: 2 }),
    difference: withKind,
  },
  {
    command: "ip link add cni0 address 0a:58:0a:f4:01:01 type bridge stp_state 0",
    hex: "5c00000010000506765a006b00000000000000000000000000000000000000000a0001000a580af401010000080004007805000009000300636e6930000000001c0012000a00010062726964676500000c0002000800050000000000",
    structSize: 16,
    nested: { 18: 0, 18.2: 0 },
    ours: createBridge({ name: "cni0", mac: parseMac("0a:58:0a:f4:01:01") }),
    difference: (theirs) => {
      const { "4": _mtu, ...attributes } = withKind(theirs).attributes;
      return { ...theirs, attributes };
    },
  },
  {
    command: "ip link set dbv1 addrgenmode none",
    hex: "3000000010000500765a006b000000000000000004000000000000000000000010001a000c000a000500080001000000",
    structSize: 16,
    nested: { 26: 0, 26.1: 0 },
    ours: changeLink({ index: 4 }, { linkLocalAddress: false }),
  },
  {
    command: "ip link del dbv1",
    hex: "2000000011000500775a006b0000000000000000040000000000000000000000",
    structSize: 16,
    ours: deleteLink({ index: 4 }),
  },
  {
    command: "ip route add 10.99.0.0/16 via 10.1.1.1 dev br0 onlink proto 107",
    hex: "3400000018000506765a006b0000000002100000fe6b000104000000080001000a630000080005000a0101010800040002000000",
    structSize: 12,
    ours: newRoute({
      family: 4,
      destination: parseCidr("10.99.0.0/16"),
      gateway: parseAddress("10.1.1.1"),
      outputInterface: 2,
      onLink: true,
    }),
  },
  {
    command: "ip -6 route add default via fd00::1 dev br0 onlink proto 107",
    hex: "4c00000018000506765a006b000000000a000000fe6b000104000000140001000000000000000000000000000000000014000500fd0000000000000000000000000000010800040002000000",
    structSize: 12,
    ours: newRoute({
      family: 6,
      destination: parseCidr("::/0"),
      gateway: parseAddress("fd00::1"),
      outputInterface: 2,
      onLink: true,
    }),
  },
  {
    command: "ip address add 10.1.2.3/24 broadcast + dev br0",
    hex: "3000000014000506765a006b000000000218000002000000080002000a010203080001000a010203080004000a0102ff",
    structSize: 8,
    ours: newAddress(2, parseCidr("10.1.2.3/24")),
  },
  {
    command: "ip address add fd00::7/64 dev br0 nodad, with the flag in IFA_FLAGS",
    hex: "4000000014000506765a006b000000000a4002000200000014000200fd00000000000000000000000000000714000100fd000000000000000000000000000007",
    structSize: 8,
    ours: newAddress(2, parseCidr("fd00::7/64")),
    difference: (theirs) => ({
      ...theirs,
      header: "0a40000002000000",
      attributes: { ...theirs.attributes, 8: "02000000" },
    }),
  },
  {
    command: "ip neighbour replace 10.1.2.9 lladdr 0a:58:0a:f4:01:09 dev br0 nud permanent",
    hex: "300000001c000505775a006b00000000020000000200000080000000080001000a0102090a0002000a580af401090000",
    structSize: 12,
    ours: setNeighbour(2, parseAddress("10.1.2.9"), parseMac("0a:58:0a:f4:01:09")),
  },
];

function encoded(message: Request): Buffer {
  const writer = new Writer();
  encodeRequest(writer, message, MessageFlag.ACK, 1);
  return Buffer.from(writer.view());
}

describe("rtnetlink requests beside iproute2's", () => {
  before(function () {
    if (endianness() !== "LE") skip(this, "the recorded bytes are little-endian");
  });

  for (const { command, hex, structSize, nested = {}, ours, difference = (same: FlatMessage) => same } of goldens) {
    it(command, () => {
      const theirs = difference(readMessage(Buffer.from(hex, "hex"), structSize, nested));
      assert.deepEqual(readMessage(encoded(ours), structSize, nested), theirs);
    });
  }

  it("changeLink sets hairpin with the port attribute that iproute2's bridge_slave sets", () => {
    const message = readMessage(encoded(changeLink({ index: 4 }, { bridgePort: { hairpin: true } })), 16, {
      18: 0,
      18.5: 0,
    });
    assert.deepEqual(message.attributes, { 18.4: Buffer.from("bridge\0").toString("hex"), "18.5.4": "01" });
  });
});

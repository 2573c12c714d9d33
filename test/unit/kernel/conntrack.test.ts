import assert from "node:assert/strict";
import { endianness } from "node:os";
import fc from "fast-check";
import {
  type ConntrackEntry,
  type ConntrackKey,
  ConntrackStatus,
  parseEntry,
} from "../../../kernel/conntrack/entry.ts";
import { parseConntrackEvent } from "../../../kernel/conntrack/event.ts";
import { parseFlowEvent, parseListedFlow } from "../../../kernel/conntrack/flow_event.ts";
import { hasLabel, labelBit, labels } from "../../../kernel/conntrack/labels.ts";
import { changeLabels, ConntrackMessage, deleteEntry, getEntry } from "../../../kernel/conntrack/request.ts";
import { type ConntrackTuple, formatTuple } from "../../../kernel/conntrack/tuple.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { protocolFromNumber, protocolNumber } from "../../../kernel/ip/protocol.ts";
import { MessageFlag, type ReceivedMessage, type Request } from "../../../kernel/netlink/message.ts";
import { skip } from "../../support/privilege.ts";

const client = parseAddress("10.9.1.2");
const service = parseAddress("10.96.0.1");
const tcp: ConntrackTuple = {
  protocol: "tcp",
  source: client,
  destination: service,
  sourcePort: 0x1234,
  destinationPort: 80,
  icmp: undefined,
};
const ping: ConntrackTuple = {
  protocol: "icmpv6",
  source: parseAddress("fd00::1"),
  destination: parseAddress("fd00::2"),
  sourcePort: undefined,
  destinationPort: undefined,
  icmp: { id: 0x0102, type: 128, code: 0 },
};

/** The attribute of the tuple TCP 10.9.1.2:4660 to 10.96.0.1:80, as the kernel and its other clients write it. */
const TCP_TUPLE =
  "34000180" + // CTA_TUPLE_ORIG
  ("14000180" + "08000100" + "0a090102" + "08000200" + "0a600001") +
  ("1c000280" + "0500010006000000" + "0600020012340000" + "0600030000500000");

function hex(request: Request): string {
  return Buffer.from(request.body).toString("hex");
}

/** Makes a message of the kernel from its attributes in hex. */
function message(attributes: string, more: Partial<ReceivedMessage> = {}, family = 2): ReceivedMessage {
  const body = Buffer.from(`${family === 2 ? "02" : "0a"}000000${attributes}`, "hex");
  return { type: ConntrackMessage.NEW, flags: 2, sequence: 1, body: new Uint8Array(body), ...more };
}

const REPLY_TUPLE = `34000280${TCP_TUPLE.slice(8)}`;

describe("kernel/conntrack messages", () => {
  before(function () {
    if (endianness() !== "LE") skip(this, "the bytes are little-endian");
  });

  it("the request to clear label 100 has the bytes that were measured on a kernel", () => {
    const zeros = "00".repeat(16);
    const mask = `${"00".repeat(12)}10${"00".repeat(3)}`;
    const request = changeLabels({ original: tcp }, { value: 0n, mask: labelBit(100) });
    assert.equal(hex(request), `02000000${TCP_TUPLE}14001600${zeros}14001700${mask}`);
    assert.equal(request.type, 0x100);
    assert.equal(request.flags, 1, "without NLM_F_CREATE, the kernel makes no entry");
  });

  it("a label's value has no bit outside of the mask, since the kernel would flip it", () => {
    const request = changeLabels({ original: tcp }, { value: labelBit(3) | labelBit(100), mask: labelBit(100) });
    const word = `${"00".repeat(12)}10${"00".repeat(3)}`;
    assert.ok(hex(request).endsWith(`14001600${word}14001700${word}`));
  });

  it("a deletion always has a tuple, since one without would empty the table", () => {
    fc.assert(
      fc.property(fc.constantFrom(tcp, ping), fc.nat(0xffff), fc.option(fc.nat(0xffff_ffff)), (original, zone, id) => {
        const key: ConntrackKey = { original, zone, ...(id === null ? {} : { id }) };
        const request = deleteEntry(key);
        assert.equal(request.type, 0x102);
        assert.equal(request.body[0], original === tcp ? 2 : 10);
        assert.match(hex(request).slice(8), /^..00018014000180|^..0001802c000180/);
      }),
    );
  });

  it("a request has the zone and the ID that its key has", () => {
    const zoned = { original: tcp, zone: 5, id: 0x01020304 };
    assert.equal(hex(deleteEntry(zoned)), `02000000${TCP_TUPLE}08000c00010203040600120000050000`);
    assert.equal(hex(getEntry(zoned)), `02000000${TCP_TUPLE}0600120000050000`);
    const inTuple = `3c000180${TCP_TUPLE.slice(8)}0600030000050000`;
    assert.equal(hex(getEntry({ ...zoned, zoneDirection: "original" })), `02000000${inTuple}`);
    assert.equal(hex(getEntry({ ...zoned, zoneDirection: "reply" })), `02000000${TCP_TUPLE}`);
  });

  it("every field of an entry is read", () => {
    const entry = parseEntry(
      message(
        [
          TCP_TUPLE,
          REPLY_TUPLE,
          "080003000000000e", // status
          "10000480" + "0c000180" + "0500010003000000", // TCP, established
          "0800070000000e10", // timeout
          "0800080000000abc", // mark
          "1c000980" + "0c00010000000000000000070c0002000000000100000000",
          "1c000a80" + "0c00010000000000000000080c0002000000000000000001",
          "08000c0001020304", // ID
          "0600120000050000", // zone
          `14001600${"00".repeat(12)}10${"00".repeat(3)}`,
        ].join(""),
      ),
    );
    const expected: ConntrackEntry = {
      family: 4,
      original: tcp,
      reply: tcp,
      zone: 5,
      zoneDirection: "both",
      id: 0x01020304,
      status: ConntrackStatus.SEEN_REPLY | ConntrackStatus.ASSURED | ConntrackStatus.CONFIRMED,
      mark: 0xabc,
      labels: labelBit(100),
      timeout: 3600,
      counters: { original: { packets: 7n, bytes: 1n << 32n }, reply: { packets: 8n, bytes: 1n } },
      tcpState: "established",
    };
    assert.deepEqual(entry, expected);
  });

  it("tuples are read as they were written, also of ICMPv6", () => {
    for (const original of [tcp, ping]) {
      const { body } = getEntry({ original });
      const family = original === tcp ? 2 : 10;
      const attributes = Buffer.from(body.subarray(4)).toString("hex");
      const reply = `${attributes.slice(0, 4)}0280${attributes.slice(8)}`;
      assert.deepEqual(parseEntry(message(attributes + reply, {}, family)).original, original);
    }
  });

  it("an entry without tuples, of another family, or with addresses of another family is refused", () => {
    const v6Tuple =
      "40000180" +
      "2c000180" +
      `14000300${"00".repeat(16)}14000400${"00".repeat(16)}` +
      "10000280" +
      "0500010006000000";
    for (const refused of [
      message(""),
      message(TCP_TUPLE),
      message(TCP_TUPLE + REPLY_TUPLE, {}, 10),
      message(v6Tuple),
    ]) {
      assert.throws(() => parseEntry(refused), { code: "ERR_NETLINK_MALFORMED" });
    }
    const body = message(TCP_TUPLE + REPLY_TUPLE).body;
    body[0] = 7;
    assert.throws(() => parseEntry(message("", { body })), { message: /family 7; expected 2 or 10/ });
  });

  it("new, update and destroy are distinguished, and another message gives no event", () => {
    const kinds: readonly (readonly [type: number, flags: number, kind: string | undefined])[] = [
      [ConntrackMessage.NEW, 0x600, "new"],
      [ConntrackMessage.NEW, 0, "update"],
      [ConntrackMessage.DELETE, 0, "destroy"],
      [ConntrackMessage.GET, 0, undefined],
      [0x200, 0, undefined],
    ];
    for (const [type, flags, kind] of kinds) {
      const event = parseConntrackEvent(message(TCP_TUPLE + REPLY_TUPLE, { type, flags }));
      assert.equal(event?.kind, kind);
      if (event !== undefined) assert.deepEqual(["mark" in event, "labels" in event], [false, false]);
    }
  });

  it("FLOW-01: the flow event of a new or ended connection has the same values as the entry with all fields", () => {
    const counters = (number: number, bytes: string) =>
      `1c00${number.toString(16).padStart(2, "0")}80` + "0c000100" + "0000000000000005" + `0c000200${bytes}`;
    const attributes = TCP_TUPLE + REPLY_TUPLE + "08000c0001020304";
    const counted = attributes + counters(9, "0000000000000400") + counters(10, "0000000000010000");
    for (const [type, flags, kind] of [
      [ConntrackMessage.NEW, MessageFlag.CREATE, "begun"],
      [ConntrackMessage.DELETE, 0, "ended"],
    ] as const) {
      const whole = parseConntrackEvent(message(counted, { type, flags }));
      assert.deepEqual(parseFlowEvent(message(counted, { type, flags })), {
        kind,
        id: whole?.id,
        protocol: 6,
        source: whole?.original.source,
        server: whole?.reply.source,
        port: whole?.reply.sourcePort,
        bytes: 0x10400,
      });
      assert.equal(parseFlowEvent(message(attributes, { type, flags }))?.bytes, 0, "without accounting");
    }
    assert.equal(parseFlowEvent(message(counted, { type: ConntrackMessage.NEW, flags: 0 })), undefined, "an update");
    assert.equal(parseListedFlow(message(counted)).kind, "begun");
    const v6 = (number: string) =>
      `4c00${number}80` +
      ("2c000180" + `14000300${"fd".padEnd(32, "0")}` + `14000400${"fd".padEnd(31, "0")}1`) +
      ("1c000280" + "050001003a000000" + "0500080080000000" + "0500090000000000");
    const ping6 = parseFlowEvent(message(v6("01") + v6("02"), { type: ConntrackMessage.DELETE }, 10));
    assert.deepEqual([ping6?.source, ping6?.protocol, ping6?.port], [parseAddress("fd00::"), 58, 0]);
    assert.throws(() => parseListedFlow(message(TCP_TUPLE)), { code: "ERR_NETLINK_MALFORMED" });
  });

  it("a protocol has one form: its name, or its number where it has no name", () => {
    for (let number = 0; number < 256; number++) assert.equal(protocolNumber(protocolFromNumber(number)), number);
    assert.deepEqual([6, 17, 132, 1, 58, 47].map(protocolFromNumber), ["tcp", "udp", "sctp", "icmp", "icmpv6", 47]);
  });

  it("a tuple is printed as text, with brackets around IPv6 addresses that have ports", () => {
    assert.equal(formatTuple(tcp), "tcp 10.9.1.2:4660 > 10.96.0.1:80");
    assert.equal(formatTuple(ping), "icmpv6 fd00::1 > fd00::2");
    assert.equal(
      formatTuple({ ...ping, protocol: 47, sourcePort: 1, destinationPort: 2 }),
      "protocol 47 [fd00::1]:1 > [fd00::2]:2",
    );
  });
});

describe("kernel/conntrack labels", () => {
  before(function () {
    if (endianness() !== "LE") skip(this, "the bytes are little-endian");
  });

  it("label n is bit n of the kernel's bitmap", () => {
    for (let label = 0; label < 128; label++) {
      const bitmap = new Uint8Array(16);
      bitmap[label >>> 3] = 1 << (label & 7);
      assert.equal(labels.decode(bitmap), labelBit(label));
      for (const other of [0, 63, 64, 100, 127]) assert.equal(hasLabel(labels.decode(bitmap), other), other === label);
    }
  });

  it("an invalid label number and a bitmap of another size are refused", () => {
    for (const label of [-1, 128, 1.5, Number.NaN]) assert.throws(() => labelBit(label), RangeError);
    for (const length of [0, 4, 8, 15, 17, 32]) {
      assert.throws(() => labels.decode(new Uint8Array(length)), { code: "ERR_NETLINK_MALFORMED" });
    }
  });
});

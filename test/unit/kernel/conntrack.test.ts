import assert from "node:assert/strict";
import { endianness } from "node:os";
import fc from "fast-check";
import { type ConntrackKey, parseEntry } from "../../../kernel/conntrack/entry.ts";
import { parseFlowEvent, parseListedFlow } from "../../../kernel/conntrack/flow_event.ts";
import { labelBit, labels } from "../../../kernel/conntrack/labels.ts";
import { ConntrackMessage, deleteEntry } from "../../../kernel/conntrack/request.ts";
import { type ConntrackTuple, formatTuple } from "../../../kernel/conntrack/tuple.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
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

  it("FLOW-01: the flow event of a new or ended connection has the same values as the entry with all fields", () => {
    const counters = (number: number, bytes: string) =>
      `1c00${number.toString(16).padStart(2, "0")}80` + "0c000100" + "0000000000000005" + `0c000200${bytes}`;
    const attributes = TCP_TUPLE + REPLY_TUPLE + "08000c0001020304";
    const counted = attributes + counters(9, "0000000000000400") + counters(10, "0000000000010000");
    const whole = parseEntry(message(counted));
    for (const [type, flags, kind] of [
      [ConntrackMessage.NEW, MessageFlag.CREATE, "begun"],
      [ConntrackMessage.DELETE, 0, "ended"],
    ] as const) {
      assert.deepEqual(parseFlowEvent(message(counted, { type, flags })), {
        kind,
        id: whole.id,
        protocol: 6,
        source: whole.original.source,
        server: whole.reply.source,
        port: whole.reply.sourcePort,
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

  it("an invalid label number and a bitmap of another size are refused", () => {
    for (const label of [-1, 128, 1.5, Number.NaN]) assert.throws(() => labelBit(label), RangeError);
    for (const length of [0, 4, 8, 15, 17, 32]) {
      assert.throws(() => labels.decode(new Uint8Array(length)), { code: "ERR_NETLINK_MALFORMED" });
    }
  });
});

import assert from "node:assert/strict";
import fc from "fast-check";
import { string, u32 } from "../../../kernel/netlink/attribute.ts";
import {
  type BodyLayout,
  decodeBody,
  decodeMessages,
  decodeStruct,
  encodeRequest,
  encodeStruct,
  MessageFlag,
  request,
  type StructLayout,
  structSize,
} from "../../../kernel/netlink/message.ts";
import { Writer } from "../../../kernel/byte_writer.ts";

const ranges = {
  u8: { min: 0, max: 0xff },
  u16: { min: 0, max: 0xffff },
  u32: { min: 0, max: 0xffff_ffff },
  i32: { min: -0x8000_0000, max: 0x7fff_ffff },
} as const;

const fieldOf = fc
  .constantFrom<keyof typeof ranges>("u8", "u16", "u32", "i32")
  .chain((width) => fc.integer(ranges[width]).map((value) => ({ width, value })));

const layout = {
  struct: { family: "u8", pad: "u8", index: "u16", size: "u8" },
  attributes: { name: [3, string], mtu: [4, u32] },
} as const satisfies BodyLayout;
const kind = { type: 16, flags: MessageFlag.CREATE, layout };

describe("kernel/netlink/message, structs", () => {
  it("reads what it writes, for any layout", () => {
    fc.assert(
      fc.property(fc.array(fieldOf, { maxLength: 12 }), (fields) => {
        const struct: StructLayout = Object.fromEntries(fields.map(({ width }, i) => [`f${i}`, width]));
        const values = Object.fromEntries(fields.map(({ value }, i) => [`f${i}`, value]));
        const writer = new Writer(1);
        encodeStruct(writer, struct, values);
        assert.equal(writer.length, structSize(struct));
        assert.deepEqual(decodeStruct(struct, writer.view()), values);
        if (writer.length === 0) return;
        assert.throws(() => decodeStruct(struct, writer.view().subarray(1)), { code: "ERR_NETLINK_MALFORMED" });
      }),
    );
  });
});

describe("kernel/netlink/message", () => {
  it("messages of a datagram are read as they were written", () => {
    const item = fc.record(
      { name: fc.string({ unit: "grapheme-ascii" }), index: fc.nat(0xffff), sequence: fc.nat(0xffff_ffff) },
      { noNullPrototype: true },
    );
    fc.assert(
      fc.property(fc.array(item, { maxLength: 5 }), (items) => {
        const writer = new Writer(1);
        for (const { name, index, sequence } of items) {
          encodeRequest(writer, request("test", kind, { index }, { name }), MessageFlag.ACK, sequence);
        }
        const read = [...decodeMessages(writer.view())].map((message) => {
          assert.equal(message.type, 16);
          assert.equal(message.flags, MessageFlag.REQUEST | MessageFlag.CREATE | MessageFlag.ACK);
          const { header, attributes } = decodeBody(layout, message.body);
          return { name: attributes.name, index: header.index, sequence: message.sequence };
        });
        assert.deepEqual(read, items);
      }),
    );
  });
});

import assert from "node:assert/strict";
import fc from "fast-check";
import { addressFromBytes } from "../../../kernel/ip/address.ts";
import { macFromBytes } from "../../../kernel/ip/mac.ts";
import {
  address,
  type AttributeTable,
  type AttributeType,
  be16,
  be32,
  be64,
  bytes,
  flag,
  i32,
  mac,
  nested,
  string,
  u16,
  u32,
  u64,
  u8,
} from "../../../kernel/netlink/attribute.ts";
import { attributeNameAt, decodeAttributes, eachAttribute } from "../../../kernel/netlink/attribute_decoder.ts";
import { attributeBytes } from "../../../kernel/netlink/message.ts";
import { littleEndian } from "../../../kernel/byte_order.ts";

/** A table and values that fit it. */
interface Sample {
  readonly table: AttributeTable;
  readonly values: Readonly<Record<string, unknown>>;
}

type Field = readonly [type: AttributeType<unknown>, value: unknown];

const addressBytes = fc.oneof(
  fc.uint8Array({ minLength: 4, maxLength: 4 }),
  fc.uint8Array({ minLength: 16, maxLength: 16 }),
);
const leaf: fc.Arbitrary<Field> = fc.oneof(
  fc.nat(0xff).map((value): Field => [u8, value]),
  fc.nat(0xffff).map((value): Field => [u16, value]),
  fc.nat(0xffff_ffff).map((value): Field => [u32, value]),
  fc.integer().map((value): Field => [i32, value]),
  fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }).map((value): Field => [u64, value]),
  fc.nat(0xffff).map((value): Field => [be16, value]),
  fc.nat(0xffff_ffff).map((value): Field => [be32, value]),
  fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }).map((value): Field => [be64, value]),
  fc.constant<Field>([flag, true]),
  fc.uint8Array({ maxLength: 40 }).map((value): Field => [bytes, value]),
  fc.string({ unit: "binary", maxLength: 20 }).map((value): Field => [string, value.replaceAll("\0", "")]),
  addressBytes.map((value): Field => [address, addressFromBytes(value)]),
  fc.uint8Array({ minLength: 6, maxLength: 6 }).map((value): Field => [mac, macFromBytes(value)]),
);

/** Generates tables of up to `depth` + 1 levels. */
function sample(depth: number): fc.Arbitrary<Sample> {
  const inner = sampleField(depth);
  return fc
    .uniqueArray(fc.tuple(fc.nat(0x3fff), inner), { maxLength: 6, selector: ([number]) => number })
    .map((fields) => ({
      table: Object.fromEntries(fields.map(([number, [type]]) => [`a${number}`, [number, type] as const])),
      values: Object.fromEntries(fields.map(([number, [, value]]) => [`a${number}`, value])),
    }));
}

function sampleField(depth: number): fc.Arbitrary<Field> {
  if (depth === 0) return leaf;
  return fc.oneof(
    leaf,
    sample(depth - 1).map(({ table, values }): Field => [nested(table), values]),
  );
}

describe("kernel/netlink/attribute", () => {
  it("reads what it writes, for any table", () => {
    fc.assert(
      fc.property(sample(2), ({ table, values }) => {
        const encoded = attributeBytes(table, values);
        assert.equal(encoded.length % 4, 0);
        assert.deepEqual(decodeAttributes(table, encoded), values);
      }),
      { numRuns: 500 },
    );
  });

  it("attributes that the table does not have are skipped", () => {
    fc.assert(
      fc.property(sample(1), fc.nat(0x3fff), ({ table, values }, dropped) => {
        const names = Object.keys(table);
        const missing = names[dropped % Math.max(names.length, 1)] ?? "";
        const without = (record: object): object =>
          Object.fromEntries(Object.entries(record).filter(([name]) => name !== missing));
        const smaller: AttributeTable = Object.fromEntries(Object.entries(table).filter(([name]) => name !== missing));
        assert.deepEqual(decodeAttributes(smaller, attributeBytes(table, values)), without(values));
      }),
    );
  });

  it("the largest attribute that a 16-bit length can describe is written, and one byte more is refused", () => {
    const table = { a: [1, bytes] } as const;
    const largest = new Uint8Array(0xffff - 4).fill(1);
    assert.deepEqual(decodeAttributes(table, attributeBytes(table, { a: largest })).a, largest);
    assert.throws(() => attributeBytes(table, { a: new Uint8Array(0xffff - 3) }), { code: "ERR_NETLINK_MALFORMED" });
    const outer = { n: [2, nested(table)] } as const;
    assert.throws(() => attributeBytes(outer, { n: { a: largest } }), { code: "ERR_NETLINK_MALFORMED" });
  });

  it("an attribute whose length exceeds what is left, or is below its header's, is refused", () => {
    const encoded = attributeBytes({ a: [1, bytes] } as const, { a: Uint8Array.of(1, 2, 3, 4) });
    const view = new DataView(encoded.buffer, encoded.byteOffset);
    for (const length of [0, 1, 3, 9, 12, 0xffff]) {
      view.setUint16(0, length, littleEndian);
      assert.throws(() => [...eachAttribute(encoded)], {
        code: "ERR_NETLINK_MALFORMED",
        message: /with 8 bytes left$/,
      });
    }
  });

  it("refuses a string with a NUL inside, which the kernel would cut", () => {
    assert.throws(() => attributeBytes({ a: [1, string] } as const, { a: "eth0\0x" }), {
      code: "ERR_NETLINK_MALFORMED",
    });
  });

  it("a payload of the wrong length for its type is refused", () => {
    const types: readonly (readonly [AttributeType<unknown>, number])[] = [
      [u8, 1],
      [u16, 2],
      [u32, 4],
      [i32, 4],
      [u64, 8],
      [be16, 2],
      [be32, 4],
      [be64, 8],
      [flag, 0],
      [mac, 6],
    ];
    for (const [type, right] of types) {
      for (let length = 0; length < 20; length++) {
        if (length === right) type.decode(new Uint8Array(length));
        else assert.throws(() => type.decode(new Uint8Array(length)), { code: "ERR_NETLINK_MALFORMED" });
      }
    }
    for (const length of [0, 3, 5, 15, 17]) {
      assert.throws(() => address.decode(new Uint8Array(length)), { code: "ERR_NETLINK_MALFORMED" });
    }
  });

  it("attributeNameAt names the attribute at an offset, also inside a nested one", () => {
    const table = { name: [3, string], info: [18, nested({ kind: [1, string], data: [2, bytes] } as const)] } as const;
    const encoded = attributeBytes(table, { name: "eth0", info: { kind: "veth", data: new Uint8Array(5) } });
    const offsets = [0, 12, 16, 28, 33].map((offset) => attributeNameAt(table, encoded, offset));
    assert.deepEqual(offsets, ["name", "info", "info.kind", "info.data", "info.data"]);
    for (const nowhere of [-1, 10, encoded.length, 0xffff_ffff]) {
      assert.equal(attributeNameAt(table, encoded, nowhere), undefined);
    }
  });
});

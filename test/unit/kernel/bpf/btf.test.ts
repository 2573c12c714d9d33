import assert from "node:assert/strict";
import { type Btf, memberOf, readBtf } from "../../../../kernel/bpf/btf.ts";
import { packetLayout } from "../../../../kernel/bpf/packet_layout.ts";
import { type BtfMember, type BtfType, btfBytes, INT, packetTypes } from "./btf_bytes.ts";

function read(types: readonly BtfType[]): Btf {
  const btf = readBtf(btfBytes(types));
  assert.ok(btf !== undefined);
  return btf;
}

describe("kernel/bpf/btf", () => {
  it("memberOf adds the offsets of unnamed structs and unions, and returns the width of a bit field", () => {
    const btf = read(packetTypes());
    assert.deepEqual(memberOf(btf, "sk_buff", "csum_offset"), { offset: 1024 + 64 + 16, width: 0 });
    assert.deepEqual(memberOf(btf, "sk_buff", "ip_summed"), { offset: 1024 + 5, width: 2 });
    assert.deepEqual(memberOf(btf, "sk_buff", "head"), { offset: 1536, width: 0 });
  });

  it("memberOf finds no member of another name, of a beginning of a name, or of a named part", () => {
    const named = { name: "inner", type: 2, offset: 64 };
    const btf = read([
      INT,
      { kind: "struct", name: "inner_type", members: [{ name: "hidden", type: 1, offset: 0 }] },
      { kind: "struct", name: "outer", members: [named] },
    ]);
    assert.equal(memberOf(btf, "outer", "hidden"), undefined);
    assert.equal(memberOf(btf, "outer", "inn"), undefined);
    assert.equal(memberOf(btf, "outer", "inner2"), undefined);
    assert.equal(memberOf(btf, "other", "inner"), undefined);
    assert.deepEqual(memberOf(btf, "outer", "inner"), { offset: 64, width: 0 });
  });

  it("memberOf ends for a struct that contains itself", () => {
    const btf = read([{ kind: "struct", name: "ring", members: [{ name: "", type: 1, offset: 0 }] }]);
    assert.equal(memberOf(btf, "ring", "gone"), undefined);
  });

  it("readBtf reads types of every kind, with the bytes that follow each", () => {
    const others: readonly BtfType["kind"][] = ["pointer", "array", "enum", "function prototype", "enum of 64 bits"];
    const types = packetTypes();
    const btf = read([
      ...types,
      ...others.map((kind): BtfType => ({ kind })),
      { kind: "struct", name: "last", members: [] },
    ]);
    assert.equal(btf.types.length, 1 + types.length + others.length + 1);
  });

  it("bytes that are not BTF, that end too early or that have an unknown kind of type are refused", () => {
    const bytes = btfBytes(packetTypes());
    assert.equal(readBtf(new Uint8Array()), undefined);
    assert.equal(readBtf(new Uint8Array(64)), undefined);
    for (let length = 0; length < bytes.length; length++) {
      const part = readBtf(bytes.slice(0, length));
      assert.ok(part === undefined || memberOf(part, "sk_buff", "nothing") === undefined, `${length} bytes`);
    }
    const unknown = bytes.slice();
    // The kind of the first type.
    unknown[24 + 7] = 30;
    assert.equal(readBtf(unknown), undefined);
  });
});

describe("kernel/bpf/packet_layout", () => {
  it("GUARD-18: a packet's fields are read as one part of struct sk_buff, from the first to the last", () => {
    assert.deepEqual(packetLayout(read(packetTypes())), {
      from: 128,
      size: 80,
      checksumState: { at: 0, mask: 0x60 },
      checksumStart: 8,
      checksumOffset: 10,
      isTunnel: { at: 1, mask: 1 },
      innerPacket: 12,
      innerFrame: 14,
      buffer: 64,
      frame: 72,
    });
  });

  const OTHERS: Readonly<Record<string, Readonly<Record<string, Partial<BtfMember>>>>> = {
    "without a field": { csum_start: { name: "other" } },
    "without the bit for tunnels": { encapsulation: { name: "other" } },
    "without the place of the packet within": { inner_network_header: { name: "other" } },
    "whose checksum state has three bits": { ip_summed: { width: 3 } },
    "whose checksum state is in two bytes": { ip_summed: { offset: 7 } },
    "with a bit field where bytes are expected": { csum_offset: { width: 16 } },
    "with a field that begins within a byte": { head: { offset: 1537 } },
    "with fields that are far apart": { data: { offset: 1024 + 8 * 200 } },
  };
  for (const [title, changes] of Object.entries(OTHERS)) {
    it(`GUARD-18: packetLayout returns undefined for a struct sk_buff ${title}`, () => {
      assert.equal(packetLayout(read(packetTypes(changes))), undefined);
    });
  }
});

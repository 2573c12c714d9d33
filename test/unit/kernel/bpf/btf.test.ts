import assert from "node:assert/strict";
import { type Member, membersOf, type ReadPart } from "../../../../kernel/bpf/btf.ts";
import { packetLayout } from "../../../../kernel/bpf/checksum_program.ts";
import { btfBytes, type BtfMember, type BtfType, INT, packetTypes } from "./btf_bytes.ts";

/** Returns the parts of these bytes, and fails for a part that lies before their beginning. */
function partsOf(bytes: Uint8Array): ReadPart {
  return (start, end) => {
    assert.ok(start >= 0);
    return bytes.subarray(start, end);
  };
}

function read(types: readonly BtfType[]): ReadPart {
  return partsOf(btfBytes(types));
}

describe("kernel/bpf/btf", () => {
  const memberOf = (parts: ReadPart, struct: string, member: string): Member | undefined =>
    membersOf(parts, struct)?.get(member);

  it("membersOf adds the offsets of unnamed structs and unions, and has the width of a bit field", () => {
    const btf = read(packetTypes());
    assert.deepEqual(memberOf(btf, "sk_buff", "csum_offset"), { offset: 1024 + 64 + 16, width: 0 });
    assert.deepEqual(memberOf(btf, "sk_buff", "ip_summed"), { offset: 1024 + 5, width: 2 });
    assert.deepEqual(memberOf(btf, "sk_buff", "head"), { offset: 1536, width: 0 });
  });

  it("membersOf has no members of a named part, and is undefined for a name that is only the beginning of a struct's", () => {
    const named = { name: "inner", type: 2, offset: 64 };
    const btf = read([
      INT,
      { kind: "struct", name: "inner_type", members: [{ name: "hidden", type: 1, offset: 0 }] },
      { kind: "struct", name: "outer", members: [named] },
    ]);
    assert.deepEqual([...(membersOf(btf, "outer") ?? [])], [["inner", { offset: 64, width: 0 }]]);
    for (const other of ["other", "out", "outer2", "inner"]) assert.equal(membersOf(btf, other), undefined, other);
  });

  it("membersOf is undefined for a struct that contains itself", () => {
    const btf = read([{ kind: "struct", name: "ring", members: [{ name: "", type: 1, offset: 0 }] }]);
    assert.equal(membersOf(btf, "ring"), undefined);
  });

  it("membersOf finds a struct after thousands of types of every kind", () => {
    const others: readonly BtfType["kind"][] = ["pointer", "array", "enum", "function prototype", "enum of 64 bits"];
    const types = [
      ...Array.from({ length: 5000 }, (_, i): BtfType[] => [
        ...others.map((kind): BtfType => ({ kind })),
        { kind: "struct", name: `a_name_that_fills_the_strings_${i}`, members: [] },
      ]).flat(),
      { kind: "struct", name: "last", members: [{ name: "one", type: 1, offset: 8 }] } as const,
    ];
    assert.deepEqual(memberOf(read(types), "last", "one"), { offset: 8, width: 0 });
  });

  it("membersOf is undefined for bytes that are not BTF, end too early or have an unknown kind of type", () => {
    const bytes = btfBytes(packetTypes());
    const whole = [...(membersOf(partsOf(bytes), "sk_buff") ?? [])];
    assert.equal(membersOf(partsOf(new Uint8Array()), "sk_buff"), undefined);
    assert.equal(membersOf(partsOf(new Uint8Array(64)), "sk_buff"), undefined);
    for (let length = 0; length < bytes.length; length++) {
      const part = membersOf(partsOf(bytes.slice(0, length)), "sk_buff");
      assert.ok(part === undefined || part.size <= whole.length, `${length} bytes`);
    }
    const unknown = bytes.slice();
    // The kind of the first type.
    unknown[24 + 7] = 30;
    assert.equal(membersOf(partsOf(unknown), "sk_buff"), undefined);
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

/** A member of a struct or union, in bits. */
export interface BtfMember {
  readonly name: string;
  /** The id of its type: the first type of a list has id 1. */
  readonly type: number;
  readonly offset: number;
  /** The width of a bit field. */
  readonly width?: number;
}

/** BTF_KIND_* and the number of bytes that follow the type; each of the enums and of the prototype has one part. */
const KINDS = {
  int: [1, 4],
  pointer: [2, 0],
  array: [3, 12],
  struct: [4, 0],
  union: [5, 0],
  enum: [6, 8],
  "function prototype": [13, 8],
  "enum of 64 bits": [19, 12],
} as const;

/** A type without its size, which nothing reads. */
export interface BtfType {
  readonly kind: keyof typeof KINDS;
  readonly name?: string;
  readonly members?: readonly BtfMember[];
}

const encoder = new TextEncoder();
/** Whether numbers are little-endian on this machine, as in its own BTF. */
const isLittle = new Uint8Array(Uint16Array.of(1).buffer)[0] === 1;

/** Returns types in the BPF Type Format, with bit fields (kind_flag) in every struct and union. */
export function btfBytes(types: readonly BtfType[]): Uint8Array {
  const strings: number[] = [0];
  const nameAt = (name = ""): number => {
    if (name === "") return 0;
    strings.push(...encoder.encode(`${name}\0`));
    return strings.length - name.length - 1;
  };
  const words: number[] = [];
  for (const { kind, name, members = [] } of types) {
    const [number, following] = KINDS[kind];
    const isStruct = kind === "struct" || kind === "union";
    const parts = isStruct ? members.length : ["enum", "function prototype", "enum of 64 bits"].includes(kind) ? 1 : 0;
    words.push(nameAt(name), ((isStruct ? 1 : 0) << 31) | (number << 24) | parts, 0);
    for (const member of members)
      words.push(nameAt(member.name), member.type, ((member.width ?? 0) << 24) | member.offset);
    // The bytes after other types are not zero, so that they are not mistaken for void.
    words.push(...Array.from({ length: following / 4 }, () => 0x0102_0304));
  }
  const bytes = new Uint8Array(24 + words.length * 4 + strings.length);
  const view = new DataView(bytes.buffer);
  view.setUint16(0, 0xeb9f, isLittle);
  view.setUint8(2, 1);
  for (const [index, value] of [24, 0, words.length * 4, words.length * 4, strings.length].entries())
    view.setUint32(4 + index * 4, value, isLittle);
  for (const [index, word] of words.entries()) view.setUint32(24 + index * 4, word >>> 0, isLittle);
  bytes.set(strings, 24 + words.length * 4);
  return bytes;
}

export const INT: BtfType = { kind: "int" };

/** Types as in Linux 6.18: the fields of a packet are in unnamed parts of struct sk_buff. The first type has id 1. */
export function packetTypes(changes: Readonly<Record<string, Partial<BtfMember>>> = {}): readonly BtfType[] {
  const member = (name: string, offset: number, width = 0): BtfMember => ({
    name,
    type: 1,
    offset,
    width,
    ...changes[name],
  });
  return [
    INT,
    { kind: "struct", members: [member("csum_start", 0), member("csum_offset", 16)] },
    { kind: "union", members: [member("csum", 0), { name: "", type: 2, offset: 0 }] },
    {
      kind: "struct",
      members: [
        member("ip_summed", 5, 2),
        member("encapsulation", 8, 1),
        { name: "", type: 3, offset: 64 },
        member("inner_network_header", 96),
        member("inner_mac_header", 112),
      ],
    },
    {
      kind: "struct",
      name: "sk_buff",
      members: [member("len", 0), { name: "", type: 4, offset: 1024 }, member("head", 1536), member("data", 1600)],
    },
  ];
}

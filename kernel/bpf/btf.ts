import { littleEndian } from "../netlink/writer.ts";

/** The place of a member in a struct, in bits. */
export interface Member {
  readonly offset: number;
  /** The member's width if it is a bit field, else 0. */
  readonly width: number;
}

/** BTF_MAGIC (include/uapi/linux/btf.h), as the machine's own byte order has it. */
const MAGIC = 0xeb9f;
/** struct btf_header up to str_len. */
const HEADER_SIZE = 24;
/** struct btf_type, and struct btf_member. */
const TYPE_SIZE = 12;

const STRUCT = 4;
const UNION = 5;

/**
 * The bytes that follow a type of each BTF_KIND_*: a fixed number, and a number for each of its parts
 * (Documentation/bpf/btf.rst, 2.2).
 */
const FOLLOWING: readonly (readonly [fixed: number, each: number])[] = [
  [0, 0], // void
  [4, 0], // int
  [0, 0], // pointer
  [12, 0], // array
  [0, TYPE_SIZE], // struct
  [0, TYPE_SIZE], // union
  [0, 8], // enum
  [0, 0], // forward declaration
  [0, 0], // typedef
  [0, 0], // volatile
  [0, 0], // const
  [0, 0], // restrict
  [0, 0], // function
  [0, 8], // function prototype
  [4, 0], // variable
  [0, 12], // section
  [0, 0], // float
  [4, 0], // declaration tag
  [0, 0], // type tag
  [0, 12], // enum of 64 bits
];

/** The kernel's description of its own types. */
export interface Btf {
  readonly view: DataView;
  readonly strings: number;
  /** The offset of each type by its id; id 0 is void. */
  readonly types: readonly number[];
}

/**
 * Returns the types that a file in the BPF Type Format describes, such as /sys/kernel/btf/vmlinux; undefined for other
 * bytes, and for a file with a kind of type that is not known here.
 */
export function readBtf(bytes: Uint8Array): Btf | undefined {
  if (bytes.length < HEADER_SIZE) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint16(0, littleEndian) !== MAGIC) return undefined;
  const [headerSize, types, typesSize, strings] = [4, 8, 12, 16].map((offset) => view.getUint32(offset, littleEndian));
  if (headerSize === undefined || types === undefined || typesSize === undefined || strings === undefined)
    return undefined;
  const end = headerSize + types + typesSize;
  if (end > bytes.length || headerSize + strings > bytes.length) return undefined;
  const offsets = [0];
  let offset = headerSize + types;
  while (offset + TYPE_SIZE <= end) {
    const { kind, parts } = infoOf(view, offset);
    const following = FOLLOWING[kind];
    if (following === undefined) return undefined;
    offsets.push(offset);
    offset += TYPE_SIZE + following[0] + parts * following[1];
  }
  return offset === end ? { view, strings: headerSize + strings, types: offsets } : undefined;
}

/** Returns a member of the first struct of that name, also one of its unnamed parts; undefined when there is none. */
export function memberOf(btf: Btf, struct: string, member: string): Member | undefined {
  const { view, types } = btf;
  const found = types.find(
    (offset, id) => id > 0 && infoOf(view, offset).kind === STRUCT && isNamed(btf, offset, struct),
  );
  return found === undefined ? undefined : memberAt(btf, found, member, MOST_LEVELS);
}

/** The most unnamed structs and unions within one another. */
const MOST_LEVELS = 8;

function memberAt(btf: Btf, type: number, name: string, levels: number): Member | undefined {
  const { view, types } = btf;
  const { kind, parts, hasWidths } = infoOf(view, type);
  if (levels === 0 || (kind !== STRUCT && kind !== UNION)) return undefined;
  for (let at = type + TYPE_SIZE, end = at + parts * TYPE_SIZE; at < end; at += TYPE_SIZE) {
    const place = view.getUint32(at + 8, littleEndian);
    const offset = hasWidths ? place & 0xff_ffff : place;
    if (isNamed(btf, at, name)) return { offset, width: hasWidths ? place >>> 24 : 0 };
    const inner = types[view.getUint32(at + 4, littleEndian)];
    if (inner === undefined || inner === 0 || !isNamed(btf, at, "")) continue;
    const within = memberAt(btf, inner, name, levels - 1);
    if (within !== undefined) return { ...within, offset: offset + within.offset };
  }
  return undefined;
}

/** Returns the parts of btf_type.info. */
function infoOf(view: DataView, type: number): { kind: number; parts: number; hasWidths: boolean } {
  const info = view.getUint32(type + 4, littleEndian);
  return { kind: (info >>> 24) & 0x1f, parts: info & 0xffff, hasWidths: info >>> 31 === 1 };
}

/** Tells whether a type or a member, whose first field is the offset of its name, has this name (ASCII). */
function isNamed({ view, strings }: Btf, at: number, name: string): boolean {
  const start = strings + view.getUint32(at, littleEndian);
  if (start + name.length >= view.byteLength) return false;
  for (let i = 0; i < name.length; i++) if (view.getUint8(start + i) !== name.charCodeAt(i)) return false;
  return view.getUint8(start + name.length) === 0;
}

import { littleEndian } from "../byte_order.ts";
import { viewOf } from "../byte_writer.ts";

/** The place of a member in a struct, in bits. */
export interface Member {
  readonly offset: number;
  /** The member's width if it is a bit field, else 0. */
  readonly width: number;
}

/** Returns the bytes of a file between two offsets; fewer where it ends. */
export type ReadPart = (start: number, end: number) => Uint8Array;

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

/** The number of bytes that are read at once: a struct that is looked for is often among the first thousands of types. */
const WINDOW = 64 * 1024;
/** More than the longest name of a member. */
const LONGEST_NAME = 128;
/** The most unnamed structs and unions within one another. */
const MOST_LEVELS = 8;

const decoder = new TextDecoder();

/** The offsets of a file's types and of their names. */
interface Sections {
  readonly types: number;
  readonly typesEnd: number;
  readonly strings: number;
  readonly stringsEnd: number;
}

/** A type: its offset in the file, its name's among the strings, and the parts of btf_type.info. */
interface Type {
  readonly offset: number;
  readonly name: number;
  readonly kind: number;
  readonly parts: number;
  readonly hasWidths: boolean;
}

/**
 * Returns the members of the first struct of a name, by their names, with those of its unnamed parts. The file is in the
 * BPF Type Format, as /sys/kernel/btf/vmlinux; of its millions of bytes only the needed ones are read.
 *
 * @returns undefined for another file, where there is no such struct, and for a kind of type that is not known here
 */
export function membersOf(read: ReadPart, struct: string): ReadonlyMap<string, Member> | undefined {
  const sections = sectionsOf(read(0, HEADER_SIZE));
  const name = sections && offsetOfName(read, sections, struct);
  if (sections === undefined || name === undefined) return undefined;
  const types = new TypeReader(read, sections);
  const type = types.struct(name);
  const members = new Map<string, Member>();
  return type !== undefined && addMembers(types, type, 0, MOST_LEVELS, members) ? members : undefined;
}

function sectionsOf(header: Uint8Array): Sections | undefined {
  if (header.length < HEADER_SIZE) return undefined;
  const view = viewOf(header);
  if (view.getUint16(0, littleEndian) !== MAGIC) return undefined;
  const word = (offset: number): number => view.getUint32(offset, littleEndian);
  const [types, strings] = [word(4) + word(8), word(4) + word(16)];
  return { types, typesEnd: types + word(12), strings, stringsEnd: strings + word(20) };
}

/** Returns the offset of a name (ASCII) from the beginning of the strings; undefined where it is not among them. */
function offsetOfName(read: ReadPart, { strings, stringsEnd }: Sections, name: string): number | undefined {
  const wanted = `\0${name}\0`;
  for (let start = strings; start < stringsEnd; start += WINDOW) {
    // A name may begin in one window and end in the next.
    const bytes = read(start, Math.min(start + WINDOW + wanted.length, stringsEnd));
    const at = decoder.decode(bytes).indexOf(wanted);
    // Characters beyond ASCII before the name would move its place in the text, which then is not the place in the file.
    if (at >= 0) return bytes[at + 1] === name.charCodeAt(0) ? start + at + 1 - strings : undefined;
    if (bytes.length < WINDOW) return undefined;
  }
  return undefined;
}

/** Reads types by their ids, which are their places in the list: id 0 is void. */
class TypeReader {
  readonly #read: ReadPart;
  readonly #sections: Sections;
  readonly #offsets: number[] = [0];
  #next: number;
  #window: DataView = new DataView(new ArrayBuffer(0));
  #windowStart = 0;

  constructor(read: ReadPart, sections: Sections) {
    this.#read = read;
    this.#sections = sections;
    this.#next = sections.types;
  }

  /** Returns the first struct of a name; undefined when there is none before a kind that is not known. */
  struct(name: number): Type | undefined {
    // Thousands of types are passed, so none becomes an object.
    for (let id = 1; this.#reach(id); id++) {
      const offset = this.#offsets[id] ?? 0;
      if (this.#word(offset) !== name) continue;
      const type = this.#typeAt(offset);
      if (type.kind === STRUCT) return type;
    }
    return undefined;
  }

  /** Returns undefined for an id that no type has, and after a kind that is not known. */
  at(id: number): Type | undefined {
    const offset = this.#reach(id) && id !== 0 ? this.#offsets[id] : undefined;
    return offset === undefined ? undefined : this.#typeAt(offset);
  }

  /** Reads on until the offset of a type is known. */
  #reach(id: number): boolean {
    while (this.#offsets.length <= id) {
      const info = this.#word(this.#next + 4);
      const following = info === undefined ? undefined : FOLLOWING[kindOf(info)];
      if (info === undefined || following === undefined) return false;
      this.#offsets.push(this.#next);
      this.#next += TYPE_SIZE + following[0] + partsOf(info) * following[1];
    }
    return true;
  }

  /** Returns the members of a struct or union; undefined where the file ends before. */
  members({ offset, parts }: Type): DataView | undefined {
    const start = offset + TYPE_SIZE;
    const bytes = this.#read(start, start + parts * TYPE_SIZE);
    return bytes.length < parts * TYPE_SIZE ? undefined : viewOf(bytes);
  }

  /** Returns a name by its offset among the strings. */
  name(offset: number): string {
    const start = this.#sections.strings + offset;
    const bytes = this.#read(start, Math.min(start + LONGEST_NAME, this.#sections.stringsEnd));
    return decoder.decode(bytes.subarray(0, Math.max(bytes.indexOf(0), 0)));
  }

  #typeAt(offset: number): Type {
    const info = this.#word(offset + 4) ?? 0;
    return {
      offset,
      name: this.#word(offset) ?? 0,
      kind: kindOf(info),
      parts: partsOf(info),
      hasWidths: info >>> 31 === 1,
    };
  }

  /** Returns four bytes of the types; undefined beyond their end. */
  #word(offset: number): number | undefined {
    const at = offset - this.#windowStart;
    if (at >= 0 && at + 4 <= this.#window.byteLength) return this.#window.getUint32(at, littleEndian);
    if (offset + 4 > this.#sections.typesEnd) return undefined;
    // With the beginning of the type, whose name is read after its other word.
    const start = offset - 4;
    this.#windowStart = start;
    this.#window = viewOf(this.#read(start, Math.min(start + WINDOW, this.#sections.typesEnd)));
    return this.#window.byteLength < 8 ? undefined : this.#window.getUint32(4, littleEndian);
  }
}

function kindOf(info: number): number {
  return (info >>> 24) & 0x1f;
}

function partsOf(info: number): number {
  return info & 0xffff;
}

/** Adds the members of a type that lies at an offset (base) of the struct. Returns whether all could be read. */
function addMembers(types: TypeReader, type: Type, base: number, levels: number, into: Map<string, Member>): boolean {
  if (type.kind !== STRUCT && type.kind !== UNION) return true;
  const view = levels === 0 ? undefined : types.members(type);
  if (view === undefined) return false;
  for (let at = 0; at < view.byteLength; at += TYPE_SIZE) {
    const place = view.getUint32(at + 8, littleEndian);
    const offset = base + (type.hasWidths ? place & 0xff_ffff : place);
    const name = view.getUint32(at, littleEndian);
    if (name !== 0) {
      const text = types.name(name);
      if (!into.has(text)) into.set(text, { offset, width: type.hasWidths ? place >>> 24 : 0 });
      continue;
    }
    const inner = types.at(view.getUint32(at + 4, littleEndian));
    if (inner === undefined || !addMembers(types, inner, offset, levels - 1, into)) return false;
  }
  return true;
}

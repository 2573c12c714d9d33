import { type Address, addressFromBytes } from "../../../kernel/ip/address.ts";
import { comparableName } from "../../../objects/domain_name.ts";

/** A successful answer to one question (RFC 1035). */
export interface DnsAnswer {
  /** The name that was asked for, in comparable form. */
  readonly name: string;
  /** The records of its answer section that say where a name leads. */
  readonly records: readonly DnsRecord[];
}

export interface DnsRecord {
  readonly name: string;
  /** In seconds. */
  readonly timeToLive: number;
  /** An address (A, AAAA), or the name that the name is an alias of (CNAME). */
  readonly leadsTo: { readonly address: Address } | { readonly alias: string };
}

const HEADER_BYTES = 12;
const CLASS_IN = 1;
/** The bit for an answer, the kind of query (0 is a usual one), and the outcome (0 is success). */
const ANSWER_MASK = 0xf80f;
const ANSWER = 0x8000;
const TYPE = { A: 1, CNAME: 5, AAAA: 28 } as const;
/** More addresses than a client could try. Further records are not read. */
const MOST_RECORDS = 128;
/** With the length bytes of all labels and the empty label at the end. */
const LONGEST_NAME = 255;
const LONGEST_LABEL = 63;
const POINTER = 0xc0;
const LETTERS = Array.from({ length: 256 }, (_, byte) => {
  const text = String.fromCharCode(byte);
  return /[A-Za-z0-9_-]/.test(text) ? text : "/";
});

/**
 * Returns what an answer says about the name in its question; undefined for any other message, and for one that is
 * malformed before the end of its answer section. Whatever the bytes are, it reads a bounded number of records, each
 * name of which has a bounded length.
 */
export function parseDnsAnswer(message: Uint8Array): DnsAnswer | undefined {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  try {
    return readAnswer(view);
  } catch (error) {
    // A field beyond the end of the message, or a name that is too long or leads in a circle.
    if (error instanceof RangeError) return undefined;
    throw error;
  }
}

function readAnswer(view: DataView): DnsAnswer | undefined {
  if ((view.getUint16(2) & ANSWER_MASK) !== ANSWER || view.getUint16(4) !== 1) return undefined;
  const question = readName(view, HEADER_BYTES);
  const name = comparableName(question.text);
  if (name === undefined || view.getUint16(question.end + 2) !== CLASS_IN) return undefined;
  const records: DnsRecord[] = [];
  let at = question.end + 4;
  for (let left = Math.min(view.getUint16(6), MOST_RECORDS); left > 0; left--) {
    const owner = readName(view, at);
    const length = view.getUint16(owner.end + 8);
    const data = owner.end + 10;
    if (data + length > view.byteLength) throw new RangeError("a record is cut short");
    const record = readRecord(view, owner, length);
    if (record !== undefined) records.push(record);
    at = data + length;
  }
  return { name, records };
}

/** Returns undefined for a record of another type or class, and for a name that no policy can have. */
function readRecord(view: DataView, owner: ReadName, length: number): DnsRecord | undefined {
  const [type, ofClass] = [view.getUint16(owner.end), view.getUint16(owner.end + 2)];
  const name = comparableName(owner.text);
  if (ofClass !== CLASS_IN || name === undefined) return undefined;
  const timeToLive = view.getUint32(owner.end + 4);
  const data = owner.end + 10;
  if (type === TYPE.CNAME) {
    const alias = comparableName(readName(view, data).text);
    return alias === undefined ? undefined : { name, timeToLive, leadsTo: { alias } };
  }
  const isAddress = (type === TYPE.A && length === 4) || (type === TYPE.AAAA && length === 16);
  if (!isAddress) return undefined;
  const bytes = new Uint8Array(view.buffer, view.byteOffset + data, length);
  return { name, timeToLive, leadsTo: { address: addressFromBytes(bytes) } };
}

interface ReadName {
  /** With a dot after each label; "/" stands for a byte that no host's name has, so that it equals none. */
  readonly text: string;
  /** The place after the name where it was found. */
  readonly end: number;
}

/**
 * Reads a name, which may continue at earlier places of the message (RFC 1035 section 4.1.4).
 *
 * @throws RangeError when it is too long, leads forward, or ends after the message
 */
function readName(view: DataView, start: number): ReadName {
  let text = "";
  let end: number | undefined;
  // Each part has to begin before the one that leads to it, so that no name leads in a circle.
  let begin = start;
  for (let at = start; ;) {
    const length = view.getUint8(at);
    if (length === 0) return { text, end: end ?? at + 1 };
    if (length >= POINTER) {
      end ??= at + 2;
      at = view.getUint16(at) & 0x3fff;
      if (at >= begin) throw new RangeError("a name leads forward");
      begin = at;
    } else {
      if (length > LONGEST_LABEL || text.length + length + 2 > LONGEST_NAME) throw new RangeError("a name is too long");
      for (let i = 1; i <= length; i++) text += LETTERS[view.getUint8(at + i)];
      text += ".";
      at += length + 1;
    }
  }
}

/** Types of records (RFC 1035, RFC 3596). */
export const RecordType = { A: 1, TXT: 16, AAAA: 28 } as const;

const HEADER_SIZE = 12;
const RECURSION_DESIRED = 0x0100;
const TRUNCATED = 0x0200;
const CLASS_IN = 1;
const OPT = 41;
/** The two bits that mark a name that continues elsewhere, which takes two bytes in all. */
const POINTER = 0xc0;

/**
 * Encodes a query for one name (RFC 1035 §4), with an EDNS record where the client accepts larger datagrams (RFC 6891).
 */
export function encodeQuery(id: number, name: string, type: number, largestDatagram = 0): Uint8Array {
  const labels = name.split(".").flatMap((label) => [label.length, ...Buffer.from(label, "latin1")]);
  const extra = largestDatagram === 0 ? [] : [0, ...word(OPT), ...word(largestDatagram), 0, 0, 0, 0, 0, 0];
  return Uint8Array.from([
    ...word(id),
    ...word(RECURSION_DESIRED),
    ...word(1),
    ...word(0),
    ...word(0),
    ...word(extra.length === 0 ? 0 : 1),
    ...labels,
    0,
    ...word(type),
    ...word(CLASS_IN),
    ...extra,
  ]);
}

/** The parts of an answer that the tests read. */
export interface DnsAnswer {
  readonly id: number;
  readonly isTruncated: boolean;
  /** 0 for success (RFC 1035 §4.1.1). */
  readonly responseCode: number;
  readonly answerCount: number;
  /** The first text of the first record, if that is a TXT record. */
  readonly text: string | undefined;
}

/** Decodes an answer. @throws RangeError when it is cut short */
export function decodeAnswer(bytes: Uint8Array): DnsAnswer {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const flags = view.getUint16(2);
  const answerCount = view.getUint16(6);
  const record = skipName(view, skipName(view, HEADER_SIZE) + 4);
  const isText = answerCount > 0 && view.getUint16(record) === RecordType.TXT;
  const textStart = record + 11;
  return {
    id: view.getUint16(0),
    isTruncated: (flags & TRUNCATED) !== 0,
    responseCode: flags & 0x0f,
    answerCount,
    text: isText
      ? Buffer.from(bytes.subarray(textStart, textStart + view.getUint8(textStart - 1))).toString("latin1")
      : undefined,
  };
}

function skipName(view: DataView, start: number): number {
  for (let at = start; at < view.byteLength;) {
    const length = view.getUint8(at);
    if (length === 0) return at + 1;
    if ((length & POINTER) === POINTER) return at + 2;
    at += length + 1;
  }
  return start;
}

function word(value: number): readonly [number, number] {
  return [value >>> 8, value & 0xff];
}

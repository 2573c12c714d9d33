import { type Address, addressToBytes, familyOf } from "../../../kernel/ip/address.ts";

/** A record of an answer to be encoded: an address, the name of a CNAME, or other bytes with their type. */
export type ResponseRecord = readonly [
  name: string,
  leadsTo: Address | string | readonly [number, Uint8Array],
  ttl?: number,
];

/** Parts of a response that differ from a usual one. */
export interface ResponseForm {
  readonly flags?: number;
  readonly recordClass?: number;
  readonly answerCount?: number;
  readonly isCompressed?: boolean;
}

const TYPES = { 4: 1, 6: 28 } as const;
const CNAME = 5;

/** Encodes an answer of a DNS server (RFC 1035), with the question for addresses of a name. */
export function dnsResponse(name: string, records: readonly ResponseRecord[], form: ResponseForm = {}): Uint8Array {
  const { flags = 0x8180, recordClass = 1, answerCount = records.length, isCompressed = true } = form;
  const places = new Map<string, number>();
  const bytes: number[] = [...word(7), ...word(flags), ...word(1), ...word(answerCount), 0, 0, 0, 0];
  const put = (text: string): void => {
    const known = places.get(text);
    if (text !== "" && known !== undefined && isCompressed) return void bytes.push(0xc0 | (known >>> 8), known & 0xff);
    if (text === "") return void bytes.push(0);
    places.set(text, bytes.length);
    const [label = "", ...rest] = text.split(".");
    bytes.push(label.length, ...Buffer.from(label, "latin1"));
    put(rest.join("."));
  };
  put(name);
  bytes.push(...word(1), ...word(1));
  for (const [owner, leadsTo, ttl = 300] of records) {
    put(owner);
    const isAddress = typeof leadsTo === "number" || typeof leadsTo === "bigint";
    const type = isAddress ? TYPES[familyOf(leadsTo)] : typeof leadsTo === "string" ? CNAME : leadsTo[0];
    bytes.push(...word(type), ...word(recordClass), ...word(ttl >>> 16), ...word(ttl & 0xffff), 0, 0);
    const start = bytes.length;
    if (typeof leadsTo === "string") put(leadsTo);
    else bytes.push(...(isAddress ? addressToBytes(leadsTo) : leadsTo[1]));
    bytes.splice(start - 2, 2, ...word(bytes.length - start));
  }
  return Uint8Array.from(bytes);
}

function word(value: number): readonly [number, number] {
  return [(value >>> 8) & 0xff, value & 0xff];
}

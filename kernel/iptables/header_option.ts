import { addressToBytes, tryParseAddress } from "../ip/address.ts";
import type { ExtensionTest } from "../nftables/foreign/extension.ts";
import type { Step } from "../nftables/foreign/step.ts";
import type { Option } from "./option.ts";

/** NFT_CMP_EQ and NFT_CMP_NEQ. */
const EQUAL = 0;
const NOT_EQUAL = 1;
/** NFT_META_IIFNAME, NFT_META_OIFNAME, NFT_META_L4PROTO. */
const INCOMING = 6;
const OUTGOING = 7;
const PROTOCOL = 16;
/** IFNAMSIZ. */
const NAME_LENGTH = 16;
/** Protocols as iptables-save prints them (/etc/protocols). Others need no number: no sample packet has them. */
const PROTOCOLS: Readonly<Record<string, number | undefined>> = { tcp: 6, udp: 17 };

/** Returns the steps of an option about the packet's header or its links. */
export function headerSteps({ name, values: [value = ""], isNegated }: Option): readonly Step[] {
  switch (name) {
    case "-i":
      return linkSteps(INCOMING, value, isNegated);
    case "-o":
      return linkSteps(OUTGOING, value, isNegated);
    case "-p":
      return protocolSteps(value, isNegated);
    // Sample packets are not fragments.
    case "-f":
      return [{ kind: "test", test: { kind: isNegated ? "always" : "never" } }];
    default:
      return [unknown(`option ${name}`)];
  }
}

/** Returns a test that may pass or not. */
export function unknown(name: string): Step {
  return { kind: "test", test: { kind: "unknown", name } };
}

function linkSteps(key: number, text: string, isNegated: boolean): readonly Step[] {
  const isPrefix = text.endsWith("+");
  const name = isPrefix ? text.slice(0, -1) : text;
  const value = new Uint8Array(isPrefix ? name.length : NAME_LENGTH);
  value.set(new TextEncoder().encode(name).subarray(0, value.length));
  return [
    { kind: "load", target: 0, field: { kind: "meta", key } },
    { kind: "compare", source: 0, operator: isNegated ? NOT_EQUAL : EQUAL, value },
  ];
}

function protocolSteps(text: string, isNegated: boolean): readonly Step[] {
  if (text === "all") return [];
  const number = PROTOCOLS[text] ?? (/^\d+$/.test(text) ? Number(text) : 255);
  return [
    { kind: "load", target: 0, field: { kind: "meta", key: PROTOCOL } },
    { kind: "compare", source: 0, operator: isNegated ? NOT_EQUAL : EQUAL, value: Uint8Array.of(number) },
  ];
}

/** Returns the step of `-s` or `-d`, with an address and any form of mask; a mask with holes is not evaluated. */
export function addressStep({ name, values: [value = ""], isNegated }: Option, family: "ip" | "ip6"): Step {
  const [text = "", mask] = value.split("/");
  const address = tryParseAddress(text);
  const bits = family === "ip" ? 32 : 128;
  const length = mask === undefined ? bits : prefixLength(mask);
  if (address === undefined || length === undefined || length > bits) return unknown(`${name} ${value}`);
  const range = rangeOf(addressToBytes(address), length);
  return { kind: "test", test: addressesTest(range, name === "-s", isNegated) };
}

/** Returns the test of a packet's source or destination against a range from its first to its last address. */
export function addressesTest(
  range: readonly [Uint8Array, Uint8Array],
  isSource: boolean,
  isNegated: boolean,
): ExtensionTest {
  return {
    kind: "addresses",
    source: isSource ? range : undefined,
    destination: isSource ? undefined : range,
    isSourceNegated: isSource && isNegated,
    isDestinationNegated: !isSource && isNegated,
  };
}

function prefixLength(mask: string): number | undefined {
  if (/^\d+$/.test(mask)) return Number(mask);
  const address = tryParseAddress(mask);
  if (address === undefined) return undefined;
  const ones = [...addressToBytes(address)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  return /^1*0*$/.test(ones) ? ones.lastIndexOf("1") + 1 : undefined;
}

function rangeOf(bytes: Uint8Array, length: number): readonly [Uint8Array, Uint8Array] {
  const first = bytes.map((byte, i) => byte & (0xff << Math.max(0, Math.min(8, 8 * (i + 1) - length))));
  const last = first.map((byte, i) => byte | (0xff >> Math.max(0, Math.min(8, length - 8 * i))));
  return [first, last];
}

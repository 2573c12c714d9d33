import { dataTypes } from "../model/data_type.ts";
import { type MapLookup, payloadFields } from "../model/expression.ts";
import { checkInteger, checkName } from "../model/identifier.ts";
import { type Instruction, instruction } from "./instruction.ts";
import type { RuleCode } from "./rule_code.ts";
import { register, registersOf, valueBytes } from "./register.ts";
import type { NatTarget, Statement } from "../model/statement.ts";

const NatFlag = { PORT_SPECIFIED: 2, FULLY_RANDOM: 16 } as const;
/** NFT_NAT_DNAT */
const DESTINATION = 1;
const NFPROTO = { ip: 2, ip6: 10 } as const;
const META_PRIORITY = 2;
const META_MARK = 3;
const META_NFTRACE = 12;
const CT_LABELS = 13;
const NETWORK_HEADER = 1;
/** NFT_PAYLOAD_CSUM_*: the IPv4 header has a checksum. Those of TCP and UDP cover the addresses, too. */
const HeaderChecksum = { NONE: 0, INET: 1 } as const;
const IPV4_CHECKSUM_OFFSET = 10;
const L4CSUM_PSEUDOHDR = 1;

/** A statement that changes the packet or its connection's data. */
export type Rewrite = Extract<
  Statement,
  {
    readonly kind:
      | "dnat"
      | "masquerade"
      | "set mark"
      | "set priority from"
      | "mask priority"
      | "clear priority"
      | "set label"
      | "set trace"
      | "set address";
  }
>;

/**
 * Emits a change of addresses, ports, the mark, the priority or a label.
 *
 * @throws DrawbridgeError ERR_NFTABLES_VALUE when nft could not express it, or would read something else
 */
export function lowerRewrite(code: RuleCode, statement: Rewrite): void {
  switch (statement.kind) {
    case "dnat":
      return lowerNat(code, statement.target);
    case "masquerade":
      return lowerMasquerade(code, statement);
    case "set mark":
      return lowerSetMark(code, statement);
    case "set priority from":
      return lowerSetFrom(code, statement.from);
    case "mask priority":
      code.load("meta priority", 0);
      code.mask(valueBytes([dataTypes.classid], [checkInteger("priority mask", statement.bits, 1, 0xfffffffe)]));
      return code.emit(instruction("meta", { key: META_PRIORITY, source: register(0) }));
    case "clear priority":
      code.immediate(0, valueBytes([dataTypes.classid], [0]));
      return code.emit(instruction("meta", { key: META_PRIORITY, source: register(0) }));
    case "set label":
      code.immediate(0, valueBytes([dataTypes.ct_label], [statement.bit]));
      return code.emit(instruction("ct", { key: CT_LABELS, source: register(0) }));
    case "set trace":
      code.immediate(0, Uint8Array.of(1));
      return code.emit(instruction("meta", { key: META_NFTRACE, source: register(0) }));
    case "set address":
      return lowerSetAddress(code, statement);
  }
}

function lowerSetAddress(code: RuleCode, { field, value }: Extract<Rewrite, { readonly kind: "set address" }>): void {
  const { offset, type } = payloadFields[field];
  code.require(field);
  if (typeof value === "string") {
    code.require(value);
    code.load(value, 0);
  } else {
    code.immediate(0, valueBytes([type], [value]));
  }
  const isIpv4 = type === dataTypes.ipv4_addr;
  code.emit(
    instruction("payload", {
      source: register(0),
      base: NETWORK_HEADER,
      offset,
      length: type.size,
      checksumType: isIpv4 ? HeaderChecksum.INET : HeaderChecksum.NONE,
      checksumOffset: isIpv4 ? IPV4_CHECKSUM_OFFSET : 0,
      checksumFlags: L4CSUM_PSEUDOHDR,
    }),
  );
}

function lowerSetFrom(code: RuleCode, from: MapLookup): void {
  code.require(from);
  code.load(from.key, 0);
  code.emit(lookupInto(from.map));
  code.emit(instruction("meta", { key: META_PRIORITY, source: register(0) }));
}

function lowerSetMark(code: RuleCode, { operation, bits }: Extract<Rewrite, { readonly kind: "set mark" }>): void {
  const value = valueBytes([dataTypes.mark], [bits]);
  code.load("meta mark", 0);
  // mark = (mark & mask) ^ xor: the mask must first clear a bit to be set, or xor would clear it where it was set.
  if (operation === "or") code.mask(valueBytes([dataTypes.mark], [~bits >>> 0]), value);
  else code.mask(value);
  code.emit(instruction("meta", { key: META_MARK, source: register(0) }));
}

function lowerNat(code: RuleCode, { lookup, family, hasPort }: NatTarget): void {
  code.require(lookup);
  code.load(lookup.key, 0);
  code.emit(lookupInto(lookup.map));
  const addressType = family === "ip" ? dataTypes.ipv4_addr : dataTypes.ipv6_addr;
  const port = hasPort ? { portMin: register(registersOf([addressType])) } : {};
  code.emit(instruction("nat", { type: DESTINATION, family: NFPROTO[family], addressMin: register(0), ...port }));
}

function lowerMasquerade(code: RuleCode, { ports }: Extract<Rewrite, { readonly kind: "masquerade" }>): void {
  if (ports === undefined) return code.emit(instruction("masq", { flags: NatFlag.FULLY_RANDOM }));
  const { first, last } = ports;
  checkInteger("first masquerade port", first, 1, 0xffff);
  checkInteger("last masquerade port", last, first, 0xffff);
  code.immediate(0, valueBytes([dataTypes.inet_service], [first]));
  const hasRange = first !== last;
  if (hasRange) code.immediate(4, valueBytes([dataTypes.inet_service], [last]));
  code.emit(
    instruction("masq", {
      flags: NatFlag.FULLY_RANDOM | NatFlag.PORT_SPECIFIED,
      portMin: register(0),
      ...(hasRange ? { portMax: register(4) } : {}),
    }),
  );
}

function lookupInto(map: string): Instruction {
  return instruction("lookup", { set: checkName("map", map), source: register(0), target: register(0), flags: 0 });
}

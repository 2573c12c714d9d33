import * as fc from "fast-check";
import { type Address, addressFromValue } from "../../../kernel/ip/address.ts";
import { dataTypes, type Scalar } from "../../../kernel/nftables/model/data_type.ts";
import type { FieldType } from "../../../kernel/nftables/model/object.ts";
import type { Verdict } from "../../../kernel/nftables/model/statement.ts";

/** Chains without a hook, which verdicts may name. */
export const PLAIN_CHAINS = ["profile", "other"] as const;

export function addressOf(family: 4 | 6, value: bigint): Address {
  const address = addressFromValue(family, value);
  if (address === undefined) throw new RangeError(`${value} is not an IPv${family} address`);
  return address;
}

const edges4 = [0n, 1n, 0x0a000001n, 0xffffffffn];
const edges6 = [0n, 1n, 0xfd00n << 112n, (1n << 128n) - 1n];
const name = (alphabet: string, maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...alphabet.split("")), minLength: 1, maxLength });

function symbolsOf(type: FieldType): fc.Arbitrary<Scalar> {
  return fc.constantFrom(...dataTypes[type].symbols.keys());
}

export const comments: fc.Arbitrary<string> = name("abcXYZ019 ._:/=-", 127);
export const ports: fc.Arbitrary<number> = fc.oneof(fc.constantFrom(0, 80, 65_535), fc.nat(65_535));
export const marks: fc.Arbitrary<number> = fc.oneof(fc.constantFrom(0, 1, 0xffffffff), fc.nat(0xffffffff));
export const addresses4: fc.Arbitrary<Address> = fc
  .oneof(fc.constantFrom(...edges4), fc.bigInt(0n, 0xffffffffn))
  .map((value) => addressOf(4, value));
export const addresses6: fc.Arbitrary<Address> = fc
  .oneof(fc.constantFrom(...edges6), fc.bigInt(1n << 100n, (1n << 128n) - 1n))
  .map((value) => addressOf(6, value));
export const interfaceNames: fc.Arbitrary<string> = name("ab0._:@-", 15).filter((text) => !/^\.{1,2}$/.test(text));
const ethernet = fc
  .uint8Array({ minLength: 6, maxLength: 6 })
  .map((bytes) => [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join(":"));

/** Values of each type as they are read back: by name where there is one. */
export const values: Readonly<Record<FieldType, fc.Arbitrary<Scalar>>> = {
  ipv4_addr: addresses4,
  ipv6_addr: addresses6,
  ether_addr: ethernet,
  ether_type: fc.oneof(symbolsOf("ether_type"), fc.constantFrom(0x9000)),
  arp_op: fc.oneof(symbolsOf("arp_op"), fc.constantFrom(200)),
  inet_proto: symbolsOf("inet_proto"),
  inet_service: ports,
  icmp_type: fc.oneof(symbolsOf("icmp_type"), fc.constantFrom(200)),
  icmpv6_type: fc.oneof(symbolsOf("icmpv6_type"), fc.constantFrom(200)),
  icmp_code: symbolsOf("icmp_code"),
  igmp_type: symbolsOf("igmp_type"),
  sixteen_bytes: addresses6,
  tcp_flag: symbolsOf("tcp_flag"),
  nf_proto: symbolsOf("nf_proto"),
  mark: marks,
  classid: fc.oneof<fc.Arbitrary<Scalar>[]>(fc.constantFrom("none", "root"), fc.integer({ min: 1, max: 0xffff_fffe })),
  iface_index: fc.integer({ min: 1000, max: 0x7fffffff }),
  ifname: interfaceNames,
  ct_state: symbolsOf("ct_state"),
  ct_dir: symbolsOf("ct_dir"),
  ct_status: symbolsOf("ct_status"),
  ct_label: fc.nat(127),
  ct_id: marks,
  pkt_type: symbolsOf("pkt_type"),
  fib_addrtype: symbolsOf("fib_addrtype"),
};

export const verdicts: fc.Arbitrary<Verdict> = fc.oneof(
  fc.constantFrom<Verdict>({ kind: "accept" }, { kind: "drop" }, { kind: "return" }, { kind: "continue" }),
  fc.record({ kind: fc.constantFrom("jump" as const, "goto" as const), chain: fc.constantFrom(...PLAIN_CHAINS) }),
);

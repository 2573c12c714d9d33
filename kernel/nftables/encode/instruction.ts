import {
  type AttributeTable,
  type AttributeType,
  type AttributeValues,
  be16,
  be32,
  be64,
  bytes,
  nested,
  string,
  u8,
} from "../../netlink/attribute.ts";
import { decodeAttributes } from "../../netlink/attribute_decoder.ts";
import { encodeAttributes } from "../../netlink/message.ts";
import { Writer } from "../../byte_writer.ts";

/** NFTA_VERDICT_* */
export const verdictAttributes = { code: [1, be32], chain: [2, string] } as const satisfies AttributeTable;

/** NFTA_DATA_*: a value or a verdict. */
export const dataAttributes = {
  value: [1, bytes],
  verdict: [2, nested(verdictAttributes)],
} as const satisfies AttributeTable;

const data = nested(dataAttributes);

/** One encoded instruction: NFTA_EXPR_NAME and NFTA_EXPR_DATA. */
export interface Instruction {
  readonly name: string;
  readonly data: Uint8Array;
}

/** NFTA_EXPR_*: the instruction's name, then attributes that depend on the name. */
const instructionAttributes = { name: [1, string], data: [2, bytes] } as const satisfies AttributeTable;

/** The form of instructions in the payload of NFTA_RULE_EXPRESSIONS, NFTA_SET_EXPR and the like. */
export const instructionType: AttributeType<Instruction> = {
  encode: (writer, value) => encodeAttributes(writer, instructionAttributes, value),
  decode: (payload) => {
    const { name, data: values } = decodeAttributes(instructionAttributes, payload);
    return { name: name ?? "", data: values ?? new Uint8Array() };
  },
};

/**
 * The kernel's instructions that our rules consist of, each with its attributes (NFTA_PAYLOAD_*, NFTA_CMP_*, …;
 * include/uapi/linux/netfilter/nf_tables.h). A rule is a list of them; registers pass values between them.
 */
export const instructions = {
  payload: {
    target: [1, be32],
    base: [2, be32],
    offset: [3, be32],
    length: [4, be32],
    source: [5, be32],
    checksumType: [6, be32],
    checksumOffset: [7, be32],
    checksumFlags: [8, be32],
  },
  exthdr: { target: [1, be32], type: [2, u8], offset: [3, be32], length: [4, be32], flags: [5, be32] },
  meta: { target: [1, be32], key: [2, be32], source: [3, be32] },
  ct: { target: [1, be32], key: [2, be32], direction: [3, u8], source: [4, be32] },
  fib: { target: [1, be32], result: [2, be32], flags: [3, be32] },
  rt: { target: [1, be32], key: [2, be32] },
  numgen: { target: [1, be32], modulus: [2, be32], type: [3, be32], offset: [4, be32] },
  hash: {
    source: [1, be32],
    target: [2, be32],
    length: [3, be32],
    modulus: [4, be32],
    seed: [5, be32],
    type: [7, be32],
  },
  bitwise: {
    source: [1, be32],
    target: [2, be32],
    length: [3, be32],
    mask: [4, data],
    xor: [5, data],
  },
  cmp: { source: [1, be32], operator: [2, be32], data: [3, data] },
  range: { source: [1, be32], operator: [2, be32], from: [3, data], to: [4, data] },
  lookup: { set: [1, string], source: [2, be32], target: [3, be32], setId: [4, be32], flags: [5, be32] },
  immediate: { target: [1, be32], data: [2, data] },
  counter: { bytes: [1, be64], packets: [2, be64] },
  limit: { rate: [1, be64], unit: [2, be64], burst: [3, be32], type: [4, be32], flags: [5, be32] },
  log: { group: [1, be16], prefix: [2, string], snapLength: [3, be32] },
  queue: { number: [1, be16], total: [2, be16], flags: [3, be16] },
  nat: {
    type: [1, be32],
    family: [2, be32],
    addressMin: [3, be32],
    portMin: [5, be32],
    flags: [7, be32],
  },
  masq: { flags: [1, be32], portMin: [2, be32], portMax: [3, be32] },
  reject: { type: [1, be32], code: [2, u8] },
  dynset: {
    set: [1, string],
    operation: [3, be32],
    key: [4, be32],
    data: [5, be32],
    timeout: [6, be64],
    instruction: [7, instructionType],
  },
} as const satisfies Readonly<Record<string, AttributeTable>>;

export type InstructionName = keyof typeof instructions;

export function instruction<N extends InstructionName>(
  name: N,
  values: AttributeValues<(typeof instructions)[N]>,
): Instruction {
  const writer = new Writer(48);
  encodeAttributes(writer, instructions[name], values);
  return { name, data: writer.view() };
}

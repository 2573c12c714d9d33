import { be32, bytes, decodeAttributes, string, u8 } from "../../netlink/attribute.ts";
import { type Instruction, instructions } from "../encode/instruction.ts";
import { VERDICT_REGISTER } from "../encode/register.ts";
import { verdictOf } from "../encode/lowering.ts";
import { extensionTest } from "./extension.ts";
import type { Step } from "./step.ts";
import { targetSteps } from "./target.ts";

const EMPTY = new Uint8Array();
/** NFTA_MATCH_* and NFTA_TARGET_*: an iptables extension in a rule of iptables-nft. */
const extensionAttributes = { name: [1, string], revision: [2, be32], info: [3, bytes] } as const;
/** NFTA_BITWISE_OP and NFTA_EXTHDR_OP, _SREG, which our own rules do not use. */
const bitwiseAttributes = { ...instructions.bitwise, operation: [6, be32] } as const;
const extensionHeader = { ...instructions.exthdr, operation: [6, be32], source: [7, be32] } as const;
/** NFTA_BYTEORDER_* */
const byteOrder = { source: [1, be32], target: [2, be32], length: [4, be32], size: [5, be32] } as const;
/** NFTA_OBJREF_IMM_TYPE; NFT_OBJECT_QUOTA, …_LIMIT. */
const objectAttributes = { type: [1, be32] } as const;
const LIMITING_OBJECTS: readonly number[] = [2, 4];
/** NFTA_*_DREG of loads whose value is not computed here, by the expression's name. */
const otherTargets: Readonly<Record<string, number | undefined>> = {
  numgen: 1,
  hash: 2,
  rt: 1,
  socket: 2,
  osf: 1,
  xfrm: 1,
  tunnel: 2,
};
const NOTING: readonly string[] = ["counter", "log", "last", "dup", "flow_offload"];
const TRANSLATING: readonly string[] = ["nat", "masq", "redir"];
const HANDING_OVER: readonly string[] = ["queue", "tproxy", "synproxy", "fwd"];
const META_MARK = 3;
const CT_MARK = 3;
const NOT_EQUAL = 1;
const EXTENSION_IS_PRESENT = 1;
const DYNAMIC_DELETE = 2;
/** The size of the longest value that an expression loads. */
const LONGEST = 16;

/** Returns a register's offset in the 64 bytes of all, by its number in the kernel (NFT_REG_1, NFT_REG32_00). */
function positionOf(register: number | undefined): number {
  const number = register ?? 0;
  return (number >= 8 ? (number - 8) * 4 : (number - 1) * 16) & 63;
}

/**
 * Returns the steps of another program's rule. An unknown expression becomes one that may or may not match.
 *
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for an attribute of another size
 */
export function decodeSteps(rule: readonly Instruction[]): readonly Step[] {
  return rule.flatMap(stepsOf);
}

function stepsOf({ name, data }: Instruction): readonly Step[] {
  if (NOTING.includes(name)) return [];
  if (TRANSLATING.includes(name)) return [{ kind: "end", end: { kind: "translate" } }];
  if (HANDING_OVER.includes(name)) return [{ kind: "end", end: { kind: "hand over", to: name } }];
  return DECODERS[name]?.(data) ?? other(name, data);
}

const DECODERS: Readonly<Record<string, ((data: Uint8Array) => readonly Step[]) | undefined>> = {
  payload,
  meta,
  ct: connection,
  fib: (data) => {
    const { target, result = 0, flags = 0 } = decodeAttributes(instructions.fib, data);
    return [{ kind: "load", target: positionOf(target), field: { kind: "fib", result, flags } }];
  },
  exthdr: header,
  bitwise,
  byteorder: (data) => {
    const { source, target, length = 0, size = 2 } = decodeAttributes(byteOrder, data);
    return [{ kind: "swap", source: positionOf(source), target: positionOf(target), length, size }];
  },
  cmp: (data) => {
    const { source, operator = 0, data: value } = decodeAttributes(instructions.cmp, data);
    return [{ kind: "compare", source: positionOf(source), operator, value: value?.value ?? EMPTY }];
  },
  range: (data) => {
    const { source, operator, from, to } = decodeAttributes(instructions.range, data);
    const [first, last] = [from?.value ?? EMPTY, to?.value ?? EMPTY];
    return [{ kind: "range", source: positionOf(source), isNegated: operator === NOT_EQUAL, first, last }];
  },
  lookup,
  immediate,
  match: (data) => {
    const { name = "", revision = 0, info = EMPTY } = decodeAttributes(extensionAttributes, data);
    return [{ kind: "test", test: extensionTest(name, revision, info) }];
  },
  target: (data) => {
    const { name = "", info = EMPTY } = decodeAttributes(extensionAttributes, data);
    return targetSteps(name, info);
  },
  reject: () => [{ kind: "end", end: { kind: "reject" } }],
  notrack: () => [{ kind: "untrack" }],
  dynset: dynamicSet,
  objref: (data) => {
    const { type } = decodeAttributes(objectAttributes, data);
    return type === undefined || LIMITING_OBJECTS.includes(type) ? [{ kind: "doubt", name: "a named object" }] : [];
  },
};

function payload(data: Uint8Array): readonly Step[] {
  const { target, base = 0, offset = 0, length = 0 } = decodeAttributes(instructions.payload, data);
  // Writes into packets are ignored: no known firewall rule makes one before it decides.
  if (target === undefined) return [];
  return [{ kind: "load", target: positionOf(target), field: { kind: "payload", base, offset, length } }];
}

function meta(data: Uint8Array): readonly Step[] {
  const { target, key = 0, source } = decodeAttributes(instructions.meta, data);
  if (source === undefined) return [{ kind: "load", target: positionOf(target), field: { kind: "meta", key } }];
  return key === META_MARK ? [{ kind: "write", what: "mark", source: positionOf(source) }] : [];
}

function connection(data: Uint8Array): readonly Step[] {
  const { target, key = 0, direction, source } = decodeAttributes(instructions.ct, data);
  if (source === undefined) {
    return [{ kind: "load", target: positionOf(target), field: { kind: "ct", key, direction } }];
  }
  return key === CT_MARK ? [{ kind: "write", what: "connection mark", source: positionOf(source) }] : [];
}

function header(data: Uint8Array): readonly Step[] {
  const { target, flags = 0, operation = 0, source } = decodeAttributes(extensionHeader, data);
  if (target === undefined || source !== undefined) return [];
  const isPresence = (flags & EXTENSION_IS_PRESENT) !== 0;
  const field =
    operation === 0
      ? ({ kind: "extension header", isPresence } as const)
      : ({ kind: "other", name: "an option of TCP or IP" } as const);
  return [{ kind: "load", target: positionOf(target), field }];
}

function bitwise(data: Uint8Array): readonly Step[] {
  const { source, target, length = 0, mask, xor, operation = 0 } = decodeAttributes(bitwiseAttributes, data);
  if (operation !== 0) return [{ kind: "unknown value", target: positionOf(target), length, name: "a shift" }];
  return [
    {
      kind: "bitwise",
      source: positionOf(source),
      target: positionOf(target),
      length,
      mask: mask?.value ?? EMPTY,
      xor: xor?.value ?? EMPTY,
    },
  ];
}

function lookup(data: Uint8Array): readonly Step[] {
  const { set = "", source, target, flags = 0 } = decodeAttributes(instructions.lookup, data);
  const into = target === VERDICT_REGISTER ? "verdict" : target === undefined ? undefined : positionOf(target);
  return [{ kind: "lookup", set, source: positionOf(source), target: into, isNegated: (flags & 1) !== 0 }];
}

function immediate(data: Uint8Array): readonly Step[] {
  const { target, data: loaded } = decodeAttributes(instructions.immediate, data);
  if (target !== VERDICT_REGISTER) {
    return [{ kind: "value", target: positionOf(target), value: loaded?.value ?? EMPTY }];
  }
  const verdict = verdictOf(loaded?.verdict?.code ?? 0, loaded?.verdict?.chain);
  return [{ kind: "end", end: verdict ?? { kind: "hand over", to: "a verdict that is not known" } }];
}

/** An addition or an update may find no room, or a rate that is used up. */
function dynamicSet(data: Uint8Array): readonly Step[] {
  const { operation = 0, instruction } = decodeAttributes(instructions.dynset, data);
  const isCertain = operation === DYNAMIC_DELETE || instruction === undefined;
  return isCertain ? [] : [{ kind: "doubt", name: "a rate for each element" }];
}

function other(name: string, data: Uint8Array): readonly Step[] {
  const number = otherTargets[name];
  if (number === undefined) return [{ kind: "doubt", name }];
  const { target } = decodeAttributes({ target: [number, be32], unused: [255, u8] } as const, data);
  if (target === undefined) return [{ kind: "doubt", name }];
  return [{ kind: "unknown value", target: positionOf(target), length: LONGEST, name }];
}

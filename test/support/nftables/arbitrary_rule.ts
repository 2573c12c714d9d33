import * as fc from "fast-check";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { type DataTypeName, dataTypes } from "../../../kernel/nftables/model/data_type.ts";
import { keyText } from "../../../kernel/nftables/encode/element.ts";
import {
  type Concatenation,
  concatenation,
  connectionKeys,
  fibKeys,
  isPayload,
  lookup,
  metaKeys,
  payloadFields,
  type Selector,
  selectorType,
} from "../../../kernel/nftables/model/expression.ts";
import type {
  BaseChain,
  Chain,
  FieldType,
  KeyPart,
  SetDefinition,
  TableFamily,
} from "../../../kernel/nftables/model/object.ts";
import { simplified } from "../../../kernel/nftables/encode/match_code.ts";
import { lowerRule } from "../../../kernel/nftables/encode/lowering.ts";
import type { Match, Operand, Rule, Statement } from "../../../kernel/nftables/model/statement.ts";
import {
  addresses4,
  addresses6,
  comments,
  interfaceNames,
  marks,
  PLAIN_CHAINS,
  ports,
  values,
  verdicts,
} from "./arbitrary_value.ts";

const keysOf = <K extends string>(table: Readonly<Record<K, unknown>>): readonly K[] =>
  // A literal has exactly the keys of its type.
  Object.keys(table) as K[];

/** Returns the selectors that a family supports: a bridge needs modules for connections, and has no routing. */
function selectorsOf(family: TableFamily): readonly Selector[] {
  // A rule has to name the protocol before these two.
  const named = keysOf(payloadFields).filter((field) => field !== "@th,64,128" && field !== "igmp type");
  const common: readonly Selector[] = [...named, ...keysOf(metaKeys)];
  return family === "bridge" ? common : [...common, ...keysOf(connectionKeys), ...keysOf(fibKeys)];
}

/** Selectors that nft cannot list beside other fields, or lists wrongly. */
const STANDING_ALONE: readonly Selector[] = [
  "ct label",
  "ct id",
  "ip6 hoplimit",
  "ip length",
  "ip frag-off",
  "ip6 length",
  "exthdr frag",
];

function scalarsOf(name: DataTypeName): (typeof values)[FieldType] {
  if (name === "integer" || name === "byte" || name === "short") return fc.nat(255);
  if (name === "boolean") return fc.constantFrom("exists", "missing");
  return values[name];
}

function prefixes(family: 4 | 6): fc.Arbitrary<Cidr> {
  return fc.record({
    address: family === 4 ? addresses4 : addresses6,
    prefixLength: fc.integer({ min: 1, max: family === 4 ? 32 : 128 }),
  });
}

function operandsOf(name: DataTypeName): fc.Arbitrary<Operand> {
  const scalars = scalarsOf(name);
  const value = scalars.map((one): Operand => ({ kind: "value", value: one }));
  const anonymous = fc
    .uniqueArray(scalars, { minLength: 1, maxLength: 4 })
    .map((found): Operand => ({ kind: "anonymous", elements: found.map((one) => [one]) }));
  const type = dataTypes[name];
  if (type.isBitmask) {
    const flags = fc
      .uniqueArray(fc.constantFrom(...type.symbols.keys()), { minLength: 1, maxLength: 3 })
      .map((names): Operand => ({ kind: "flags", names }));
    return fc.oneof(value, anonymous, flags);
  }
  if (name === "ct_label") return value;
  if (name === "mark" || name === "classid") {
    const masked = fc
      .tuple(marks, marks)
      .map(([mask, bits]): Operand => ({ kind: "masked", mask, value: (mask & bits) >>> 0 }));
    return fc.oneof(value, anonymous, masked);
  }
  if (name === "ifname") {
    return fc.oneof(
      value,
      anonymous,
      interfaceNames.map((text): Operand => ({ kind: "wildcard", prefix: text.slice(0, 14) })),
    );
  }
  if (name === "ipv4_addr" || name === "ipv6_addr") {
    const prefix = prefixes(name === "ipv4_addr" ? 4 : 6).map((cidr): Operand => ({ kind: "prefix", cidr }));
    return fc.oneof(value, anonymous, prefix, rangesOf(name));
  }
  return name === "inet_service" ? fc.oneof(value, anonymous, rangesOf(name)) : fc.oneof(value, anonymous);
}

function rangesOf(name: FieldType): fc.Arbitrary<Operand> {
  return fc
    .uniqueArray(values[name], { minLength: 2, maxLength: 2 })
    .map((ends) => ends.toSorted((a, b) => (a < b ? -1 : 1)))
    .map(([first = 0, last = 0]): Operand => ({ kind: "range", first, last }));
}

function matches(family: TableFamily): fc.Arbitrary<Statement> {
  const single = fc
    .constantFrom(...selectorsOf(family))
    .chain((left) =>
      fc
        .tuple(operandsOf(selectorType(left).name), fc.boolean())
        .map(([right, isNegated]): Statement => ({ kind: "match", left, isNegated, right })),
    );
  const several = fc
    .array(fc.constantFrom(...selectorsOf(family).filter((one) => !STANDING_ALONE.includes(one))), {
      minLength: 2,
      maxLength: 3,
    })
    .chain((parts) =>
      fc
        .tuple(
          fc.uniqueArray(fc.tuple(...parts.map((part) => scalarsOf(selectorType(part).name))), {
            minLength: 1,
            maxLength: 3,
            selector: keyText,
          }),
          fc.boolean(),
        )
        .map(([elements, isNegated]): Statement => ({
          kind: "match",
          left: concatenation(...parts),
          isNegated,
          right: { kind: "anonymous", elements },
        })),
    );
  const computed: fc.Arbitrary<Match["left"]> = fc.oneof(
    fc.integer({ min: 2, max: 100 }).map((modulus) => ({ kind: "numgen" as const, modulus })),
    fc.record({
      kind: fc.constant("jhash" as const),
      of: fc.array(
        fc.constantFrom<Selector>("ip saddr", "ip daddr", "ip6 saddr", "tcp dport", "meta mark", "meta l4proto"),
        {
          minLength: 1,
          maxLength: 3,
        },
      ),
      modulus: fc.integer({ min: 2, max: 100 }),
      seed: marks,
    }),
  );
  const number = fc
    .tuple(computed, fc.nat(100))
    .map(([left, value]): Statement => ({ kind: "match", left, isNegated: false, right: { kind: "value", value } }));
  return fc.oneof(
    { arbitrary: single, weight: 6 },
    { arbitrary: several, weight: 2 },
    { arbitrary: number, weight: 1 },
  );
}

/** Returns the selectors that yield values of a type. */
function sourcesOf(type: KeyPart, family: TableFamily): readonly Concatenation["parts"][number][] {
  if (typeof type !== "string") return [type];
  return selectorsOf(family).filter((selector) => selectorType(selector).name === type);
}

/** Generates an expression with the types of a key; undefined when no selector yields one of them. */
function keysFor(parts: readonly KeyPart[], family: TableFamily): fc.Arbitrary<Selector | Concatenation> | undefined {
  const sources = parts.map((part) => sourcesOf(part, family));
  if (sources.some((found) => found.length === 0)) return undefined;
  return fc.tuple(...sources.map((found) => fc.constantFrom(...found))).map((found) => {
    const [only, ...others] = found;
    return typeof only === "string" && others.length === 0 ? only : concatenation(...found);
  });
}

/** Returns the statements that a set or map can be used in. */
function uses(set: SetDefinition, family: TableFamily): readonly fc.Arbitrary<Statement>[] {
  const key = keysFor(set.key, family);
  if (key === undefined) return [];
  if (set.data === "verdict") {
    return [key.map((found): Statement => ({ kind: "vmap", key: found, map: set.name }))];
  }
  const dynamic = fc
    .tuple(key, fc.constantFrom("add" as const, "update" as const, "delete" as const), fc.boolean())
    .map(([found, operation, isTimed]): Statement => ({
      kind: "dynamic",
      operation,
      set: set.name,
      key: found,
      ...(isTimed && set.timeout !== undefined && operation !== "delete" ? { timeout: 20_000 } : {}),
    }));
  if (set.data !== undefined) {
    return set.data.length === 1 && set.data[0] === "mark"
      ? [key.map((found): Statement => ({ kind: "set mark from", from: lookup(found, set.name) }))]
      : [];
  }
  const match = fc.tuple(key, fc.boolean()).map(([left, isNegated]): Statement => ({
    kind: "match",
    left,
    isNegated,
    right: { kind: "set", name: set.name },
  }));
  return set.isDynamic === true ? [match, dynamic] : [match];
}

const bits = fc.integer({ min: 1, max: 0xfffffffe });

function actions(family: TableFamily): fc.Arbitrary<Statement> {
  const limit = fc.record({
    kind: fc.constant("limit" as const),
    rate: fc.integer({ min: 1, max: 100_000 }),
    unit: fc.constantFrom("second" as const, "minute" as const, "hour" as const, "day" as const),
    burst: fc.integer({ min: 1, max: 1000 }),
    isOver: fc.boolean(),
  });
  const log = fc.record({
    kind: fc.constant("log" as const),
    prefix: fc.string({ unit: fc.constantFrom(..."aZ9 ._:/=|-".split("")), minLength: 1, maxLength: 127 }),
    group: fc.nat(65_535),
    snapLength: fc.integer({ min: 1, max: 65_535 }),
  });
  const setMark = fc.record({
    kind: fc.constant("set mark" as const),
    operation: fc.constantFrom("or" as const, "and" as const),
    bits,
  });
  const simple = fc.constantFrom<Statement>({ kind: "counter" });
  const tracked = fc.oneof(
    fc.nat(127).map((bit): Statement => ({ kind: "set label", bit })),
    fc.constant<Statement>({ kind: "set trace" }),
    fc.constant<Statement>({ kind: "notrack" }),
  );
  return family === "bridge" ? fc.oneof(limit, log, setMark, simple) : fc.oneof(limit, log, setMark, simple, tracked);
}

function natStatements(
  base: BaseChain,
  sets: readonly SetDefinition[],
  family: TableFamily,
): readonly fc.Arbitrary<Statement>[] {
  const families =
    family === "inet" ? (["ip", "ip6"] as const) : family === "ip" ? (["ip"] as const) : (["ip6"] as const);
  const kind = base.hook === "prerouting" || base.hook === "output" ? ("dnat" as const) : ("snat" as const);
  const address = fc.constantFrom(...families).chain((one) => (one === "ip" ? addresses4 : addresses6));
  const constant = fc
    .tuple(
      address,
      fc.option(
        ports.filter((port) => port > 0),
        { nil: undefined },
      ),
    )
    .map(([found, port]): Statement => ({
      kind,
      target: { kind: "address", address: found, ...(port === undefined ? {} : { port }) },
    }));
  const maps = sets.flatMap((set) => {
    const [type, port, ...others] = typeof set.data === "object" ? set.data : [];
    const key = keysFor(set.key, family);
    const target = families.find((one) => type === (one === "ip" ? "ipv4_addr" : "ipv6_addr"));
    if (key === undefined || target === undefined || others.length > 0) return [];
    if (port !== undefined && port !== "inet_service") return [];
    return [
      key.map((found): Statement => ({
        kind,
        target: { kind: "map", family: target, hasPort: port !== undefined, lookup: lookup(found, set.name) },
      })),
    ];
  });
  const masquerade = fc.boolean().map((isFullyRandom): Statement => ({ kind: "masquerade", isFullyRandom }));
  const redirect = ports.filter((port) => port > 0).map((port): Statement => ({ kind: "redirect", port }));
  if (kind === "dnat") return [constant, redirect, ...maps];
  return base.hook === "postrouting" ? [constant, masquerade, ...maps] : [constant, ...maps];
}

/** Whether nft may move a statement: it orders the comparisons of single fields as they lie in the packet. */
function isMovable(statement: Statement): boolean {
  if (statement.kind !== "match" || typeof statement.left !== "string" || !isPayload(statement.left)) return false;
  return simplified(statement.right).kind === "value";
}

/**
 * Keeps the statements that our codec accepts after those before them: what it accepts must read back. A statement that
 * nft would move before others is only kept when it is the first match.
 */
function accepted(statements: readonly Statement[], family: TableFamily): Rule {
  const kept: Statement[] = [];
  for (const statement of statements) {
    if (isMovable(statement) && kept.some((one) => one.kind === "match")) continue;
    try {
      lowerRule({ statements: [...kept, statement] }, family, () => 1);
      kept.push(statement);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
    }
  }
  return { statements: kept };
}

function rules(family: TableFamily, sets: readonly SetDefinition[], base?: BaseChain): fc.Arbitrary<readonly Rule[]> {
  const middle = fc.oneof(
    { arbitrary: matches(family), weight: 4 },
    { arbitrary: actions(family), weight: 2 },
    ...sets.filter((set) => base !== undefined || set.data !== "verdict").flatMap((set) => uses(set, family)),
  );
  const rejects = fc.constantFrom<Statement>(
    { kind: "reject", reply: "icmpx port-unreachable" },
    { kind: "reject", reply: "icmpx admin-prohibited" },
    { kind: "reject", reply: "tcp reset" },
  );
  // A bridge rejects with a module of its own, which not every kernel has.
  const isRejecting = family !== "bridge" && base?.type === "filter" && base.hook === "input";
  const ends = [
    ...(base === undefined
      ? [fc.constantFrom<Statement>({ kind: "verdict", verdict: { kind: "return" } })]
      : [verdicts.map((verdict): Statement => ({ kind: "verdict", verdict }))]),
    ...(isRejecting ? [rejects] : []),
    ...(base?.type === "nat" ? natStatements(base, sets, family) : []),
  ];
  const one = fc
    .tuple(fc.array(middle, { maxLength: 4 }), fc.oneof(...ends), fc.option(comments, { nil: undefined }))
    .map(([statements, end, comment]): Rule => ({
      ...accepted([...statements, end], family),
      ...(comment === undefined ? {} : { comment }),
    }))
    .filter(({ statements }) => statements.length > 0);
  return fc.array(one, { maxLength: 6 });
}

function bases(family: TableFamily): fc.Arbitrary<BaseChain> {
  const priority = fc.integer({ min: -400, max: 400 });
  const policy = fc.constantFrom("accept" as const, "drop" as const);
  const filter = fc.record({
    type: fc.constant("filter" as const),
    hook: fc.constantFrom(
      "prerouting" as const,
      "input" as const,
      "forward" as const,
      "output" as const,
      "postrouting" as const,
    ),
    priority,
    policy,
  });
  const nat = fc.record({
    type: fc.constant("nat" as const),
    hook: fc.constantFrom("prerouting" as const, "input" as const, "output" as const, "postrouting" as const),
    priority: fc.integer({ min: -150, max: 150 }),
    policy: fc.constant("accept" as const),
  });
  if (family === "bridge") return filter;
  const route = fc.record({
    type: fc.constant("route" as const),
    hook: fc.constant("output" as const),
    priority,
    policy,
  });
  return family === "inet" ? fc.oneof(filter, nat) : fc.oneof(filter, nat, route);
}

/** Generates plain chains that verdicts may name, and base chains with rules that use the sets. */
export function arbitraryChains(family: TableFamily, sets: readonly SetDefinition[]): fc.Arbitrary<readonly Chain[]> {
  const plain = PLAIN_CHAINS.map((name) => rules(family, sets).map((found): Chain => ({ name, rules: found })));
  const hooked = fc.array(
    bases(family).chain((base) =>
      fc.tuple(fc.constant(base), rules(family, sets, base), fc.option(comments, { nil: undefined })),
    ),
    { maxLength: 4 },
  );
  return fc.tuple(fc.tuple(...plain), hooked).map(([first, others]) => [
    ...first,
    ...others.map(([base, found, comment], index): Chain => ({
      name: `base${index}`,
      base,
      ...(comment === undefined ? {} : { comment }),
      rules: found,
    })),
  ]);
}

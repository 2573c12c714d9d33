import * as fc from "fast-check";
import { dataTypes, paddedSize, type Scalar } from "../../../kernel/nftables/model/data_type.ts";
import { isOrderedByBytes } from "../../../kernel/nftables/encode/element_bytes.ts";
import { keyText, keyTypes } from "../../../kernel/nftables/encode/element.ts";
import type { KeyField } from "../../../kernel/nftables/model/expression.ts";
import type {
  Element,
  FieldType,
  KeyPart,
  SetDefinition,
  Table,
  TableFamily,
} from "../../../kernel/nftables/model/object.ts";
import { needsTypeof } from "../../../kernel/nftables/encode/userdata.ts";
import { arbitraryChains } from "./arbitrary_rule.ts";
import { comments, values, verdicts } from "./arbitrary_value.ts";

/** A table with the elements of its sets. */
export interface Content {
  readonly table: Table;
  readonly elements: ReadonlyMap<string, readonly Element[]>;
}

/**
 * Types that cannot be a key: nft lists a label as a mask, a flow's number cannot stand beside other fields, and a type
 * without a name only beside few.
 */
const NO_KEYS: readonly string[] = ["ct_label", "ct_id", "sixteen_bytes"];
/** The types of which a set's key can be made. */
const keyFields = Object.keys(values).filter((type): type is FieldType => !NO_KEYS.includes(type));
/** The types that can stand beside a generated number. */
const typeofFields = ["ipv4_addr", "ipv6_addr", "inet_service", "inet_proto", "mark"] as const;

const keys: fc.Arbitrary<readonly KeyPart[]> = fc
  .oneof(
    fc.array(fc.constantFrom<FieldType>(...keyFields), { minLength: 1, maxLength: 5 }),
    fc.constant(["ct_id"] as const),
    fc.constant(["ipv6_addr", "sixteen_bytes"] as const),
    fc
      .tuple(
        fc.array(fc.constantFrom<FieldType>(...typeofFields), { minLength: 1, maxLength: 3 }),
        fc.integer({ min: 1, max: 1000 }),
      )
      .map(([fields, modulus]): readonly KeyPart[] => [...fields, { kind: "numgen", modulus }]),
  )
  .filter((key) => keyTypes(key).reduce((sum, type) => sum + paddedSize(type), 0) <= 64);

function isRangeable(key: readonly KeyPart[]): boolean {
  return key.every((part) => {
    if (typeof part !== "string" || part === "tcp_flag" || part === "ct_id") return false;
    return isOrderedByBytes(dataTypes[part]) || (part === "ifname" && key.length > 1);
  });
}

function definitions(setName: string): fc.Arbitrary<SetDefinition> {
  return keys.chain((key) => {
    const isTypeof = needsTypeof(key);
    const data = fc.array(
      fc.constantFrom<FieldType>(
        ...(isTypeof ? typeofFields : (["ipv4_addr", "inet_service", "mark", "ipv6_addr"] as const)),
      ),
      { minLength: 1, maxLength: 2 },
    );
    return fc
      .record({
        data: fc.option(isTypeof ? data : fc.oneof(data, fc.constant("verdict" as const)), { nil: undefined }),
        isRangeWanted: fc.boolean(),
        isDynamic: fc.boolean(),
        timeout: fc.option(fc.oneof(fc.constant("per element" as const), fc.constantFrom(90_000, 3_600_000)), {
          nil: undefined,
        }),
        size: fc.option(fc.integer({ min: 100, max: 70_000 }), { nil: undefined }),
        hasCounters: fc.boolean(),
        comment: fc.option(comments, { nil: undefined }),
      })
      .map(({ data: values_, isRangeWanted, isDynamic, timeout, size, hasCounters, comment }): SetDefinition => {
        const isMarkBeside = typeof values_ === "object" && values_.length > 1 && values_.includes("mark");
        const isInterval = isRangeWanted && isRangeable(key) && !isMarkBeside;
        return {
          name: setName,
          key,
          ...(values_ === undefined ? {} : { data: values_ }),
          ...(isInterval ? { isInterval } : {}),
          ...(isDynamic && !isInterval && values_ !== "verdict" ? { isDynamic } : {}),
          ...(timeout === undefined ? {} : { timeout }),
          ...(size === undefined ? {} : { size }),
          ...(hasCounters ? { hasCounters } : {}),
          ...(comment === undefined ? {} : { comment }),
        };
      });
  });
}

function fieldValues(part: KeyPart): fc.Arbitrary<Scalar> {
  return typeof part === "string" ? values[part] : fc.nat(part.modulus - 1);
}

/** Generates disjoint ranges of a type that is ordered as numbers; some hold only one value, some are adjacent. */
function ranges(type: FieldType, count: number): fc.Arbitrary<readonly KeyField[]> {
  const { size } = dataTypes[type];
  const isNumber = type === "ipv4_addr" || type === "inet_service";
  if (!isNumber && type !== "ipv6_addr") {
    return fc.uniqueArray(values[type], { minLength: 1, maxLength: count });
  }
  const limit = (1n << BigInt(8 * size)) - 1n;
  const scalar = (value: bigint): Scalar => (isNumber ? Number(value) : value);
  return fc
    .uniqueArray(fc.oneof(fc.bigInt(0n, limit), fc.bigInt(0n, 300n), fc.constant(limit)), {
      minLength: 1,
      maxLength: 2 * count,
    })
    .map((drawn) => {
      const sorted = drawn.toSorted((a, b) => (a < b ? -1 : 1));
      const found: KeyField[] = [];
      for (let i = 0; i < sorted.length; i += 2) {
        const [first, last] = [sorted[i] ?? 0n, sorted[i + 1]];
        found.push(last === undefined ? scalar(first) : { first: scalar(first), last: scalar(last) });
      }
      return found;
    });
}

function elementKeys(set: SetDefinition): fc.Arbitrary<readonly (readonly KeyField[])[]> {
  const [first, ...others] = set.key;
  if (set.isInterval !== true || typeof first !== "string") {
    return fc.uniqueArray(fc.tuple(...set.key.map((part) => fieldValues(part))), { maxLength: 8, selector: keyText });
  }
  const rest = others.map((part) =>
    typeof part === "string" && (part === "ipv4_addr" || part === "inet_service")
      ? ranges(part, 1).map((found): KeyField => found[0] ?? 0)
      : fieldValues(part),
  );
  return ranges(first, 6).chain((distinct) =>
    fc.tuple(...distinct.map((field) => fc.tuple(fc.constant(field), ...rest))),
  );
}

function elementsOf(set: SetDefinition): fc.Arbitrary<readonly Element[]> {
  const data: fc.Arbitrary<Element["data"]> =
    set.data === undefined
      ? fc.constant(undefined)
      : set.data === "verdict"
        ? verdicts
        : fc.tuple(...set.data.map((type) => values[type]));
  const timeouts = fc.option(
    fc.integer({ min: 10, max: 80 }).map((seconds) => seconds * 1000),
    { nil: undefined },
  );
  const extra = fc.record({ data, timeout: timeouts, comment: fc.option(comments, { nil: undefined }) });
  return elementKeys(set).chain((found) =>
    fc.tuple(
      ...found.map((key) =>
        extra.map((drawn): Element => ({
          key,
          ...(drawn.data === undefined ? {} : { data: drawn.data }),
          ...(drawn.timeout === undefined || set.timeout === undefined ? {} : { timeout: drawn.timeout }),
          ...(drawn.comment === undefined ? {} : { comment: drawn.comment }),
        })),
      ),
    ),
  );
}

/** Generates tables of a family with sets and maps of every definition, elements, chains and rules. */
export function contents(family: TableFamily): fc.Arbitrary<Content> {
  return fc
    .integer({ min: 0, max: 8 })
    .chain((count) => fc.tuple(...Array.from({ length: count }, (_, index) => definitions(`set${index}`))))
    .chain((sets) =>
      fc
        .record({
          table: fc.record({
            comment: fc.option(comments, { nil: undefined }),
            chains: arbitraryChains(family, sets),
          }),
          elements: fc.tuple(...sets.map((set) => elementsOf(set))),
        })
        .map(({ table: { comment, chains }, elements }): Content => ({
          table: { family, name: "generated", ...(comment === undefined ? {} : { comment }), sets, chains },
          elements: new Map(sets.map((set, index) => [set.name, elements[index] ?? []])),
        })),
    );
}

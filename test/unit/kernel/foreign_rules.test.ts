import assert from "node:assert/strict";
import fc from "fast-check";
import type { ForeignChain, ForeignTable } from "../../../kernel/nftables/foreign/foreign_ruleset.ts";
import { type ForeignSet, foreignSet, lookUp, MOST_ELEMENTS } from "../../../kernel/nftables/foreign/foreign_set.ts";
import { cutsOf } from "../../../kernel/nftables/foreign/packet_walk.ts";
import type { ForeignEnd, Step } from "../../../kernel/nftables/foreign/step.ts";
import { decodeSteps } from "../../../kernel/nftables/foreign/step_decoder.ts";
import {
  equals,
  isAbove,
  isAtLeast,
  isBetween,
  type KnownBytes,
  masked,
  type Ternary,
} from "../../../kernel/nftables/foreign/ternary.ts";
import { POD_TO_POD } from "../../support/nftables/sample_packet.ts";

const UNKNOWN: Step = { kind: "doubt", name: "numgen" };
const META_MARK = { kind: "load", target: 0, field: { kind: "meta", key: 3 } } as const;

function end(kind: "accept" | "drop" | "return" | "continue" | "reject"): Step {
  return { kind: "end", end: { kind } };
}

function to(kind: "jump" | "goto", chain: string): Step {
  return { kind: "end", end: { kind, chain } };
}

/** Makes a table whose chain "base" hooks into forward; each rule is a list of steps. */
function table(
  policy: "accept" | "drop",
  chains: Readonly<Record<string, readonly (readonly Step[])[]>>,
): ForeignTable {
  const made = Object.entries(chains).map(([name, rules], index): [string, ForeignChain] => [
    name,
    {
      name,
      rules: rules.map((steps, i) => ({ handle: BigInt(index * 100 + i + 1), steps })),
      base: name === "base" ? { hook: "forward", priority: 0, policy, devices: [] } : undefined,
    },
  ]);
  return { family: "inet", name: "t", chains: new Map(made), sets: new Map() };
}

/** Returns "passes", or how the packet is lost, with "maybe" where that is uncertain. */
function verdict(...tables: readonly ForeignTable[]): string {
  const cuts = cutsOf(tables, POD_TO_POD);
  return cuts.length === 0
    ? "passes"
    : cuts.map(({ end: one, doubts }) => `${doubts.length > 0 ? "maybe " : ""}${one.kind}`).join(", ");
}

describe("kernel/nftables/foreign", () => {
  const byte = fc.option(fc.integer({ min: 0, max: 255 }), { nil: undefined });
  const FOUR = { minLength: 4, maxLength: 4 };

  it("DOCTOR-14: an answer about partly unknown bytes holds for every value of the unknown ones", () => {
    const values = fc.array(fc.integer({ min: 0, max: 255 }), FOUR);
    fc.assert(
      fc.property(fc.array(byte, FOUR), values, values, values, (bytes, filling, a, b) => {
        const whole = bytes.map((one, i) => one ?? filling[i] ?? 0);
        const agree = (vague: Ternary, certain: Ternary): void => {
          assert.notEqual(certain, "unknown");
          if (vague !== "unknown") assert.equal(vague, certain);
        };
        agree(equals(bytes, a), equals(whole, a));
        agree(isAbove(bytes, a), isAbove(whole, a));
        agree(isAtLeast(bytes, a), isAtLeast(whole, a));
        agree(isBetween(bytes, a, b), isBetween(whole, a, b));
        const [vague, certain]: readonly KnownBytes[] = [masked(bytes, a, b), masked(whole, a, b)];
        assert.ok(vague?.every((one, i) => one === undefined || one === certain?.[i]));
      }),
    );
  });

  it("DOCTOR-14: a drop by a rule that may match is doubtful, and by one that certainly matches is certain", () => {
    assert.equal(verdict(table("accept", { base: [[UNKNOWN, end("drop")]] })), "maybe drop");
    assert.equal(verdict(table("accept", { base: [[end("drop")]] })), "drop");
    assert.equal(verdict(table("drop", { base: [[UNKNOWN, end("accept")]] })), "maybe drop");
    assert.equal(verdict(table("drop", { base: [[end("accept")]] })), "passes");
    // The packet is lost whether or not the rule matches.
    assert.equal(verdict(table("drop", { base: [[UNKNOWN, end("reject")]] })), "reject, drop");
    assert.equal(verdict(table("accept", { base: [[UNKNOWN]] })), "passes");
  });

  it("DOCTOR-14: a jump returns, a goto does not, and the end of a base chain is its policy", () => {
    assert.equal(
      verdict(table("drop", { base: [[to("jump", "a")], [end("accept")]], a: [[end("return")], [end("drop")]] })),
      "passes",
    );
    assert.equal(verdict(table("drop", { base: [[to("goto", "a")], [end("accept")]], a: [[]] })), "drop");
    assert.equal(
      verdict(table("accept", { base: [[end("continue")], [UNKNOWN, to("jump", "a")]], a: [[end("drop")]] })),
      "maybe drop",
    );
  });

  it("DOCTOR-14: an accept ends one base chain, and the next evaluates the packet with the mark that was set", () => {
    const marks = table("accept", { base: [[{ kind: "change mark", mask: 0, xor: 7 }, end("accept")]] });
    const drops = (mark: number): ForeignTable =>
      table("accept", {
        base: [
          [META_MARK, { kind: "compare", source: 0, operator: 0, value: Uint8Array.of(mark, 0, 0, 0) }, end("drop")],
        ],
      });
    assert.equal(verdict(marks, drops(7)), "drop");
    assert.equal(verdict(marks, drops(8)), "passes");
    const maybe = table("accept", { base: [[UNKNOWN, { kind: "change mark", mask: 0, xor: 7 }]] });
    assert.equal(verdict(maybe, drops(7)), "maybe drop");
    const others = table("accept", {
      base: [[META_MARK, { kind: "compare", source: 0, operator: 0, value: Uint8Array.of(7, 1, 0, 0) }, end("drop")]],
    });
    assert.equal(verdict(maybe, others), "passes");
  });

  it("DOCTOR-14: an unknown expression or target is a doubt with its name", () => {
    const name = "expression of tomorrow";
    const hands: ForeignEnd = { kind: "hand over", to: "queue" };
    assert.deepEqual(decodeSteps([{ name, data: new Uint8Array() }]), [{ kind: "doubt", name }]);
    assert.deepEqual(decodeSteps([{ name: "queue", data: new Uint8Array() }]), [{ kind: "end", end: hands }]);
    const [cut] = cutsOf([table("accept", { base: [[{ kind: "end", end: hands }]] })], POD_TO_POD);
    assert.deepEqual([cut?.end.kind, cut?.doubts[0]?.about], ["unknown", ["queue"]]);
  });

  const element = (key: readonly number[], flags = 0) => ({ key: { value: Uint8Array.from(key) }, flags });

  it("DOCTOR-14: a look-up finds ranges by their ends, and a set that is too large is not read", () => {
    const INTERVAL = 4;
    const END = 1;
    const ranges: ForeignSet = foreignSet({ name: "r", flags: INTERVAL, keyLength: 2 }, [
      element([2, 0]),
      element([1, 0], END),
      element([0, 5]),
    ]);
    const found = (...key: KnownBytes): Ternary => lookUp(ranges, key).isFound;
    assert.deepEqual(
      [found(0, 4), found(0, 5), found(0, 255), found(1, 0), found(2, 0), found(255, 255)],
      ["no", "yes", "yes", "no", "yes", "yes"],
    );
    assert.deepEqual([found(0, undefined), found(3, undefined), found(1, undefined)], ["unknown", "yes", "no"]);
    const many = Array.from({ length: MOST_ELEMENTS + 1 }, (_, i) => element([i >> 8, i & 0xff]));
    assert.match(foreignSet({ name: "m", keyLength: 2 }, many).obstacle ?? "", /set m has more than 20000 elements/);
    assert.equal(foreignSet({ name: "m", keyLength: 2 }, many.slice(1)).obstacle, undefined);
  });

  it("DOCTOR-14: evaluation of jumps in a loop ends, and the doubt says that there are too many rules", () => {
    const rounds = table("accept", {
      base: [[to("jump", "a")]],
      a: [[to("jump", "b")], [to("jump", "b")]],
      b: [[to("jump", "a")], [to("jump", "a")]],
    });
    const [cut] = cutsOf([rounds], POD_TO_POD);
    assert.equal(cut?.end.kind, "unknown");
    assert.match(cut?.doubts[0]?.about[0] ?? "", /more than 100000 rules/);
  });
});

import assert from "node:assert/strict";
import { labelBit } from "../../../../../kernel/conntrack/labels.ts";
import { ALLOWED_LABEL } from "../../../../../policyd/policy/compile/policy_table.ts";
import type { Fate } from "../../../../../policyd/policy/cuts/fate.ts";
import { CUT_LABEL, FATE_LABELS, fateOf, flowState, isBroken } from "../../../../../policyd/policy/cuts/fate.ts";
import type { FlowVerdict } from "../../../../../policyd/policy/live/flow_judge.ts";

const NEW = { isLabelled: false, wasCut: false, isSettled: false };
const LIVE = { ...NEW, isLabelled: true };
const CUT = { ...NEW, wasCut: true };
const SETTLED = { ...NEW, isSettled: true };

describe("policy/cuts: what becomes of a connection", () => {
  const cases: readonly (readonly [FlowVerdict, typeof NEW, boolean, Fate, string])[] = [
    ["denied", LIVE, false, "cut", "what passes and is denied stops"],
    ["denied", SETTLED, false, "cut", "also what passes by its number"],
    ["denied", { ...LIVE, wasCut: true }, false, "cut", "also once more"],
    ["denied", NEW, false, "none", "what never passed needs no cut"],
    ["denied", CUT, false, "none", "what was cut stays cut"],
    ["allowed", CUT, false, "restore", "what was cut and is allowed goes on"],
    ["allowed", LIVE, false, "none", "what passes goes on"],
    ["allowed", SETTLED, false, "none", "also by its number"],
    ["allowed", NEW, false, "probe", "what rules never let through is not let through here"],
    ["allowed", NEW, true, "restore", "but with the first table, when rules have let nothing through yet"],
    ["denied", LIVE, true, "cut", "what is denied then stops as well"],
    ["not ours", LIVE, false, "none", "what is no pod's is left alone"],
    ["not ours", NEW, true, "none", "and gets no label"],
  ];
  for (const [verdict, state, isOpening, fate, title] of cases) {
    it(`POL-81: ${title}`, () => assert.equal(fateOf(verdict, state, isOpening), fate));
  }

  it("POL-83: reset is what both ends believe in, and nothing else", () => {
    for (const state of [LIVE, SETTLED, CUT]) {
      assert.equal(isBroken("denied", state, false), true);
      assert.equal(isBroken("allowed", state, false), false);
    }
    assert.deepEqual([isBroken("denied", NEW, false), isBroken("denied", NEW, true)], [false, true]);
  });

  it("the labels say afterwards what was done, and a probe changes none", () => {
    const after = (before: bigint, fate: Exclude<Fate, "none">) => {
      const { value, mask } = FATE_LABELS[fate];
      return flowState((before & ~mask) | (value & mask), false);
    };
    const live = labelBit(ALLOWED_LABEL) | labelBit(3);
    assert.deepEqual(after(live, "cut"), CUT);
    assert.deepEqual(after(labelBit(CUT_LABEL), "restore"), LIVE);
    assert.deepEqual(after(0n, "probe"), NEW);
  });
});

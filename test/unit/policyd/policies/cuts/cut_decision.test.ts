import assert from "node:assert/strict";
import { labelBit } from "../../../../../kernel/conntrack/labels.ts";
import { ALLOWED_LABEL } from "../../../../../policyd/policies/compile/policy_table.ts";
import {
  CUT_LABEL,
  type CutDecision,
  DECISION_LABELS,
  cutDecision,
  flowState,
  isBroken,
} from "../../../../../policyd/policies/cuts/cut_decision.ts";
import type { FlowVerdict } from "../../../../../policyd/policies/live/flow_evaluator.ts";

const NEW = { isLabelled: false, wasCut: false, isSettled: false };
const LIVE = { ...NEW, isLabelled: true };
const CUT = { ...NEW, wasCut: true };
const SETTLED = { ...NEW, isSettled: true };

describe("policy/cuts: the fate of a connection", () => {
  const cases: readonly (readonly [FlowVerdict, typeof NEW, boolean, CutDecision, string])[] = [
    ["denied", LIVE, false, "cut", "a labelled connection that is denied is cut"],
    ["denied", SETTLED, false, "cut", "a settled connection that is denied is cut"],
    [
      "denied",
      { ...LIVE, wasCut: true },
      false,
      "cut",
      "a labelled connection that was cut before and is denied is cut again",
    ],
    ["denied", NEW, false, "none", "a denied connection that never passed needs no cut"],
    ["denied", CUT, false, "none", "a denied connection that was cut stays cut"],
    ["allowed", CUT, false, "restore", "a cut connection that is allowed is restored"],
    ["allowed", LIVE, false, "none", "a labelled connection that is allowed keeps passing"],
    ["allowed", SETTLED, false, "none", "a settled connection that is allowed keeps passing"],
    ["allowed", NEW, false, "probe", "an allowed connection that the rules never let pass is only probed"],
    [
      "allowed",
      NEW,
      true,
      "restore",
      "an allowed connection is restored with the first table, before rules have let anything pass",
    ],
    ["denied", LIVE, true, "cut", "a denied connection is cut with the first table, too"],
    ["not ours", LIVE, false, "none", "a connection of no pod of ours is not touched"],
    ["not ours", NEW, true, "none", "a connection of no pod of ours gets no label with the first table"],
  ];
  for (const [verdict, state, isOpening, fate, title] of cases) {
    it(`POL-81: ${title}`, () => assert.equal(cutDecision(verdict, state, isOpening), fate));
  }

  it("POL-83: only a denied connection that both ends consider open is reset", () => {
    for (const state of [LIVE, SETTLED, CUT]) {
      assert.equal(isBroken("denied", state, false), true);
      assert.equal(isBroken("allowed", state, false), false);
    }
    assert.deepEqual([isBroken("denied", NEW, false), isBroken("denied", NEW, true)], [false, true]);
  });

  it("the labels show the fate afterwards, and a probe changes none", () => {
    const after = (before: bigint, fate: Exclude<CutDecision, "none">) => {
      const { value, mask } = DECISION_LABELS[fate];
      return flowState((before & ~mask) | (value & mask), false);
    };
    const live = labelBit(ALLOWED_LABEL) | labelBit(3);
    assert.deepEqual(after(live, "cut"), CUT);
    assert.deepEqual(after(labelBit(CUT_LABEL), "restore"), LIVE);
    assert.deepEqual(after(0n, "probe"), NEW);
  });
});

import assert from "node:assert/strict";
import { FakeClock } from "../../../support/fake_clock.ts";
import { Contest, type ContestLimits } from "../../../../policyd/lib/contest.ts";

/** The limits for our entry of a network's configuration. */
const LIMITS: ContestLimits = { free: 3, firstPause: 1000, longestPause: 60_000, calm: 10_000 };

/** A contest in which another program changes our part this number of times, each time this long after we wrote it. */
function changedEvery(milliseconds: number, times: number): { readonly contest: Contest; readonly clock: FakeClock } {
  const clock = new FakeClock();
  const contest = new Contest(clock, LIMITS);
  for (let change = 0; change < times; change++) {
    contest.written();
    clock.pass(milliseconds);
    contest.lost();
  }
  return { contest, clock };
}

describe("policyd/lib/contest", () => {
  it("CHAIN-03: changes one second apart become a contest with the fourth", () => {
    assert.deepEqual([changedEvery(1000, 3).contest.wait, changedEvery(1000, 4).contest.wait], [0, 1000]);
    assert.equal(changedEvery(1000, 12).contest.wait, 60_000);
  });

  it("CHAIN-03: a part that is changed every ten seconds is not contested, even without checks between the changes", () => {
    const { contest } = changedEvery(10_000, 20);
    assert.deepEqual([contest.wait, contest.isContested], [0, false]);
  });

  it("CHAIN-03: a contest ends when the part was in place for twice the last pause", () => {
    const { contest, clock } = changedEvery(1000, 9);
    assert.equal(contest.wait, 32_000);
    contest.written();
    clock.pass(63_000);
    contest.held();
    assert.ok(contest.isContested);
    clock.pass(1000);
    contest.lost();
    assert.ok(!contest.isContested);
  });
});

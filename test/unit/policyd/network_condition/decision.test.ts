import assert from "node:assert/strict";
import fc from "fast-check";
import type { WriteOutcome } from "../../../../policyd/api_write/api_writer.ts";
import {
  attempted,
  type Attempts,
  decide,
  LOOK_MILLISECONDS,
  MOST_ATTEMPTS,
  NO_ATTEMPTS,
  PATIENCE_MILLISECONDS,
  RARE_MILLISECONDS,
  seenAvailable,
  type Situation,
} from "../../../../policyd/network_condition/decision.ts";

const NOW = 1_000_000;
const WRITTEN: WriteOutcome = { type: "written" };
const FAILED: WriteOutcome = { type: "failed", reason: "503", retryAfter: undefined };
const FORBIDDEN: WriteOutcome = { type: "forbidden", reason: "403" };

const failures = (count: number): readonly WriteOutcome[] => Array.from({ length: count }, () => FAILED);

const situation = (changes: Partial<Situation> = {}): Situation => ({
  now: NOW,
  unavailableSince: NOW,
  isReady: true,
  isOurs: true,
  attempts: NO_ATTEMPTS,
  ...changes,
});

/** Milliseconds until the next attempt after a sequence of outcomes. */
function pauseAfter(outcomes: readonly WriteOutcome[], isSeen = false, random = 0): number {
  const attempts = outcomes.reduce<Attempts>((earlier, one) => attempted(earlier, one, NOW, random), NO_ATTEMPTS);
  const action = decide(situation({ attempts: isSeen ? seenAvailable(attempts, random) : attempts }));
  return action.type === "wait" ? action.milliseconds : 0;
}

describe("policyd/network_condition/decision", () => {
  it("COND-01: the condition is patched when the daemon is ready, not before", () => {
    assert.deepEqual(decide(situation()), { type: "patch" });
    for (const isOurs of [true, false]) {
      const late = situation({ isReady: false, isOurs, unavailableSince: 0 });
      assert.deepEqual(decide(late), { type: "wait", milliseconds: LOOK_MILLISECONDS });
    }
  });

  it("COND-02: a condition that is not ours is reported after half a minute and never patched", () => {
    const after = (milliseconds: number) => decide(situation({ isOurs: false, now: NOW + milliseconds }));
    assert.deepEqual(after(0), { type: "wait", milliseconds: PATIENCE_MILLISECONDS });
    assert.deepEqual(after(PATIENCE_MILLISECONDS - 1), { type: "wait", milliseconds: 1 });
    assert.deepEqual(after(PATIENCE_MILLISECONDS), { type: "tell" });
  });

  it("COND-02: pauses double up to a minute, and after twelve attempts in a row there is one in ten minutes", () => {
    const pauses = Array.from({ length: MOST_ATTEMPTS + 1 }, (_, i) => pauseAfter(failures(i + 1)));
    const seconds = [1, 2, 4, 8, 16, 32, 60, 60, 60, 60, 60, 600, 600];
    assert.deepEqual(
      pauses,
      seconds.map((one) => one * 1000),
    );
    assert.equal(
      pauseAfter([FAILED], false, 0.5),
      1250,
      "the pause is longer at random, so that nodes do not come all at once",
    );
    assert.equal(pauseAfter([{ ...FAILED, type: "failed", retryAfter: 7 }]), 7000);
    assert.equal(pauseAfter([FORBIDDEN]), RARE_MILLISECONDS);
    assert.equal(pauseAfter([{ type: "rejected", reason: "422" }]), RARE_MILLISECONDS);
  });

  it("COND-02: attempts of long ago do not count", () => {
    const attempts = failures(MOST_ATTEMPTS).reduce<Attempts>(
      (earlier, one) => attempted(earlier, one, NOW, 0),
      NO_ATTEMPTS,
    );
    assert.equal(attempted(attempts, FAILED, NOW + 3 * RARE_MILLISECONDS, 0).count, MOST_ATTEMPTS + 1);
    assert.equal(attempted(attempts, FAILED, NOW + 3 * RARE_MILLISECONDS + 1, 0).count, 1);
  });

  it("COND-02: for any outcomes and any program that sets it back, a day has few attempts and no long pause", () => {
    const outcome = fc.constantFrom<WriteOutcome>(WRITTEN, FAILED, FORBIDDEN, {
      ...FAILED,
      type: "failed",
      retryAfter: 3600,
    });
    const step = fc.record({
      outcome,
      isSetBack: fc.boolean(),
      random: fc.double({ min: 0, max: 0.999, noNaN: true }),
    });
    fc.assert(
      fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
        let attempts = NO_ATTEMPTS;
        let now = NOW;
        let made = 0;
        while (now < NOW + 86_400_000) {
          const action = decide(situation({ now, attempts }));
          if (action.type === "wait") {
            assert.ok(action.milliseconds <= RARE_MILLISECONDS * 1.5, `${action.milliseconds} ms`);
            now += action.milliseconds;
            continue;
          }
          const { outcome: became, isSetBack, random } = steps[made % steps.length] ?? assert.fail();
          attempts = attempted(attempts, became, now, random);
          if (isSetBack) attempts = seenAvailable(attempts, random);
          made++;
        }
        assert.ok(made <= MOST_ATTEMPTS + 86_400_000 / RARE_MILLISECONDS, `${made} attempts`);
      }),
    );
  });
});

import assert from "node:assert/strict";
import fc from "fast-check";
import type { WriteOutcome } from "../../../../policyd/api_write/api_writer.ts";
import {
  attempted,
  type Attempts,
  MOST_ATTEMPTS,
  NO_ATTEMPTS,
  RARE_MILLISECONDS,
  seenAvailable,
} from "../../../../policyd/network_condition/attempts.ts";
import {
  LOOK_MILLISECONDS,
  NetworkCondition,
  PATIENCE_MILLISECONDS,
} from "../../../../policyd/network_condition/network_condition.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { recordingNotices } from "../../../support/recording_notices.ts";
import { node } from "../../../support/routes/machine.ts";

const NOW = 1_000_000;
const WRITTEN: WriteOutcome = { type: "written" };
const FAILED: WriteOutcome = { type: "failed", reason: "503", retryAfter: undefined };
const FORBIDDEN: WriteOutcome = { type: "forbidden", reason: "403" };

const failures = (count: number): readonly WriteOutcome[] => Array.from({ length: count }, () => FAILED);

/** Milliseconds until the next attempt after a sequence of outcomes. */
function pauseAfter(outcomes: readonly WriteOutcome[], isSeen = false, random = 0): number {
  const attempts = outcomes.reduce<Attempts>((earlier, one) => attempted(earlier, one, NOW, random), NO_ATTEMPTS);
  return (isSeen ? seenAvailable(attempts, random) : attempts).notBefore - NOW;
}

describe("policyd/network_condition", () => {
  it("COND-02: a condition that is not ours is reported after half a minute, once the daemon is ready, and never patched", () => {
    const clock = new FakeClock();
    const state = { isReady: false };
    const condition = new NetworkCondition({
      clock,
      logger: recordingLogger(),
      events: recordingNotices(),
      nodeName: "a",
      writer: { write: () => assert.fail("patched"), stop: () => {} },
      isOurs: false,
      isReady: () => state.isReady,
      random: () => 0,
    });
    const object = { ...node("a", [], []), isNetworkUnavailable: true };
    condition.apply([{ type: "set", kind: "Node", key: "a", object }]);
    const after = (milliseconds: number): number => {
      for (let left = milliseconds; left > 0; left -= LOOK_MILLISECONDS) clock.pass(LOOK_MILLISECONDS);
      return condition.problems().length;
    };
    assert.equal(after(PATIENCE_MILLISECONDS - LOOK_MILLISECONDS), 0);
    state.isReady = true;
    assert.equal(after(LOOK_MILLISECONDS), 1);
    state.isReady = false;
    condition.apply([{ type: "set", kind: "Node", key: "a", object: { ...object, isNetworkUnavailable: false } }]);
    condition.apply([{ type: "set", kind: "Node", key: "a", object }]);
    assert.equal(after(2 * PATIENCE_MILLISECONDS), 0);
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
          const wait = Math.max(0, attempts.notBefore - now);
          assert.ok(wait <= RARE_MILLISECONDS * 1.5, `${wait} ms`);
          now += wait;
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

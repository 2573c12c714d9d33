import assert from "node:assert/strict";
import { randomFrom } from "../../../../support/random.ts";
import { runLive } from "../../../../support/policy/live/incremental.ts";
import { countedSeed, roundsFor } from "../../../../support/long_form.ts";

const EVENTS = roundsFor("random events", 300, 10_000);
const COMPARE_EVERY = 100;

describe("policyd/policies/live: incremental changes", () => {
  it(`DP-11: after ${EVENTS} random events a failing kernel has the same state as after a fresh build`, function () {
    this.timeout(600_000);
    const seed = countedSeed();
    console.log(`      seed ${seed}`);
    const outcome = runLive({ events: EVENTS, compareEvery: COMPARE_EVERY, random: randomFrom(seed) });
    console.log(`      ${JSON.stringify(outcome)}`);
    assert.equal(outcome.comparisons, EVENTS / COMPARE_EVERY);
    const { faults, restarts, mostProvided, verdicts } = outcome;
    assert.ok(
      faults > EVENTS / 20 && restarts > 0 && mostProvided > 20 && verdicts > outcome.comparisons,
      JSON.stringify(outcome),
    );
  });
});

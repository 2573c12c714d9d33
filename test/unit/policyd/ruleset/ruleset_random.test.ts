import assert from "node:assert/strict";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { runRandomProfiles } from "../../../support/ruleset/random_profiles.ts";
import { randomFrom } from "../../../support/random.ts";
import { roundsFor } from "../../../support/long_form.ts";

const STEPS = roundsFor("random steps", 200, 1000);
const COMPARISONS = STEPS / 20;

describe("policyd/ruleset: incremental changes of objects", () => {
  it(`DP-11: after ${STEPS} random changes a failing kernel has the same state as after a fresh build`, function () {
    this.timeout(120_000);
    const seed = Date.now() >>> 0;
    console.log(`      seed ${seed}`);
    const random = randomFrom(seed);
    const parts = { kernel: new FakeNftables(), fresh: () => new FakeNftables(), random };
    const seen = runRandomProfiles({ ...parts, steps: STEPS, comparisons: COMPARISONS });
    console.log(`      ${JSON.stringify(seen)}`);
    assert.ok(seen.faults > STEPS / 200 && seen.restarts > 0 && seen.harms > 0 && seen.comparisons === COMPARISONS);
  });
});

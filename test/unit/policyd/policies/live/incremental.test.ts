import assert from "node:assert/strict";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import { type FaultRates, FaultyNftables } from "../../../../support/ruleset/faulty_nftables.ts";
import { randomFrom } from "../../../../support/random.ts";
import { LiveNode } from "../../../../support/policy/live/live_node.ts";
import { ClusterState, liveEvents } from "../../../../support/policy/live/random_events.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";
import { countedSeed, roundsFor } from "../../../../support/long_form.ts";

const EVENTS = roundsFor("random events", 300, 10_000);
/** The number of events between comparisons of the kernel with a fresh build. */
const COMPARE_EVERY = 100;
const FAULTS: FaultRates = { commit: 0.2, read: 0.003 };
const NO_FAULTS: FaultRates = { commit: 0, read: 0 };
/** A daemon lives for this number of events at most, so that every run has restarts. */
const EVENTS_OF_A_DAEMON = 200;
/** Milliseconds from one event to the next; undefined where not even due work runs in between. */
const WAITS = [undefined, undefined, undefined, undefined, 0, 0, 0, 60, 60, 600];

/**
 * Applies random events on a kernel that fails at random, in slices, with daemons that end and start with other options
 * in between. Every now and then the faults stop; then the kernel must have what a daemon that has never known another
 * cluster writes into an empty kernel. In every other stretch there are no faults at all, since a fault makes the
 * daemon read everything again, which would hide mistakes in its own account.
 *
 * @returns the numbers of faults, comparisons and restarts; of all comparisons the largest number of sets and chains,
 *   beside the static ones, and the number of elements with a profile's verdict
 * @throws AssertionError when the kernel has other content
 */
function runLive(random: () => number) {
  const faulty = new FaultyNftables(new FakeNftables(), random, FAULTS);
  const clock = new TickingClock(1 / 4);
  const state = new ClusterState();
  const shuffled = <T>(all: readonly T[]): readonly T[] =>
    all
      .map((one) => [random(), one] as const)
      .toSorted(([a], [b]) => a - b)
      .map(([, one]) => one);
  let options = DEFAULT_POLICY_OPTIONS;
  let node = new LiveNode({ kernel: faulty, clock, options });
  const outcome = { comparisons: 0, restarts: 0, mostProvided: 0, verdicts: 0 };
  const lifetime = (): number => Math.ceil(random() * EVENTS_OF_A_DAEMON);
  let left = lifetime();
  const source = liveEvents(random);
  for (let number = 1; number <= EVENTS; number++) {
    const event = source.next().value;
    state.apply(event);
    node.apply(event);
    const wait = WAITS[Math.floor(random() * WAITS.length)];
    if (wait !== undefined) clock.pass(wait);
    if (--left < 1) {
      left = lifetime();
      node.stop();
      options = { ...options, dropLog: random() < 0.5, policePodToOwnNode: random() < 0.5 };
      node = new LiveNode({ kernel: faulty, clock, options, known: state.events(shuffled) });
      outcome.restarts++;
    }
    if (number % COMPARE_EVERY > 0 && number < EVENTS) continue;
    faulty.setRates(NO_FAULTS);
    node.settle(1);
    const rebuilt = new LiveNode({
      kernel: new FakeNftables(),
      clock: new TickingClock(0),
      options,
      known: state.events(shuffled),
    });
    rebuilt.settle();
    assert.equal(node.content(), rebuilt.content(), `after ${number} events`);
    outcome.comparisons++;
    outcome.mostProvided = Math.max(outcome.mostProvided, node.provided().length);
    outcome.verdicts += node.judged("egress4").length + node.judged("ingress6").length;
    rebuilt.stop();
    faulty.setRates(outcome.comparisons % 2 === 0 ? FAULTS : NO_FAULTS);
  }
  node.stop();
  return { faults: faulty.faults, ...outcome };
}

describe("policyd/policies/live: incremental changes", () => {
  it(`DP-11: after ${EVENTS} random events a failing kernel has the same state as after a fresh build`, function () {
    this.timeout(600_000);
    const seed = countedSeed();
    console.log(`      seed ${seed}`);
    const outcome = runLive(randomFrom(seed));
    console.log(`      ${JSON.stringify(outcome)}`);
    assert.equal(outcome.comparisons, EVENTS / COMPARE_EVERY);
    const { faults, restarts, mostProvided, verdicts } = outcome;
    assert.ok(
      faults > EVENTS / 20 && restarts > 0 && mostProvided > 20 && verdicts > outcome.comparisons,
      JSON.stringify(outcome),
    );
  });
});

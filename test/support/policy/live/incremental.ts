import assert from "node:assert/strict";
import { FakeNftables } from "../../nftables/fake/fake_nftables.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../policyd/policies/compile/options.ts";
import { type FaultRates, FaultyNftables } from "../../ruleset/faulty_nftables.ts";
import { LiveNode } from "./live_node.ts";
import { ClusterState, liveEvents } from "./random_events.ts";
import { TickingClock } from "./ticking_clock.ts";

const FAULTS: FaultRates = { commit: 0.2, read: 0.003 };
const NO_FAULTS: FaultRates = { commit: 0, read: 0 };
/** A daemon lives for this number of events at most, so that every run has restarts. */
const EVENTS_OF_A_DAEMON = 200;
/** Milliseconds from one event to the next; undefined where not even due work runs in between. */
const WAITS = [undefined, undefined, undefined, undefined, 0, 0, 0, 60, 60, 600];

export interface LiveRun {
  readonly events: number;
  /** The number of events between comparisons of the kernel with a fresh build. */
  readonly compareEvery: number;
  readonly random: () => number;
}

/** The numbers that a run has observed. */
export interface LiveOutcome {
  readonly faults: number;
  readonly comparisons: number;
  readonly restarts: number;
  /** The largest number of sets and chains, beside the static ones, at a comparison. */
  readonly mostProvided: number;
  /** The number of elements with a profile's verdict, of all comparisons. */
  readonly verdicts: number;
}

/**
 * Applies random events on a kernel that fails at random, in slices, with daemons that end and start with other options
 * in between. Every now and then the faults stop; then the kernel must have what a daemon that has never known another
 * cluster writes into an empty kernel. In every other stretch there are no faults at all, since a fault makes the
 * daemon read everything again, which would hide mistakes in its own account.
 *
 * @throws AssertionError when the kernel has other content
 */
export function runLive({ events, compareEvery, random }: LiveRun): LiveOutcome {
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
  for (let number = 1; number <= events; number++) {
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
    if (number % compareEvery > 0 && number < events) continue;
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

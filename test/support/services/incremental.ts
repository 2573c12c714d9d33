import assert from "node:assert/strict";
import type { Table } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { FakeClock } from "../fake_clock.ts";
import { type FaultRates, FaultyNftables } from "../ruleset/faulty_nftables.ts";
import { clusterEvents } from "./random_events.ts";
import type { TurnBounds } from "../../../policyd/services/service_turns.ts";
import { ClusterState, EventNode } from "./random_node.ts";

const FAULTS: FaultRates = { commit: 0.3, read: 0.01 };
const NO_FAULTS: FaultRates = { commit: 0, read: 0 };
/** A daemon lives for this number of events at most, so that every run has restarts. */
const EVENTS_OF_A_DAEMON = 200;
/** More turns than all Services together need. */
const MOST_TURNS = 1000;
/** Milliseconds from one event to the next. */
const WAITS = [0, 0, 0, 0, 0, 60, 60, 60, 60, 600];

/** The settings of a run, and how often it is checked. */
export interface IncrementalRun {
  readonly events: number;
  /** The number of events between comparisons of the kernel with a fresh build. */
  readonly compareEvery: number;
  readonly random: () => number;
  readonly kernel: Nftables;
  readonly tables: readonly Table[];
  /** The bounds of the turns of Services. */
  readonly turn?: TurnBounds;
  /** Returns an empty kernel. */
  readonly fresh: () => Nftables;
}

/** The numbers that a run has observed. */
export interface IncrementalOutcome {
  readonly faults: number;
  readonly comparisons: number;
  readonly restarts: number;
  readonly elements: number;
}

/**
 * Applies random events on a kernel that fails at random, with daemons that end and start in between. Every now and
 * then the faults stop; then the kernel must have what a daemon that has never known another cluster writes into an
 * empty kernel. In every other stretch there are no faults at all, since a fault makes the daemon read everything
 * again, which would hide mistakes in its own account.
 *
 * @throws AssertionError when the kernel has other content
 */
export function runIncrementally({
  events,
  compareEvery,
  random,
  kernel,
  tables,
  turn,
  fresh,
}: IncrementalRun): IncrementalOutcome {
  const faulty = new FaultyNftables(kernel, random, FAULTS);
  const clock = new FakeClock();
  const state = new ClusterState();
  let node = new EventNode(faulty, clock, tables, [], turn);
  let [comparisons, restarts] = [0, 0];
  const lifetime = (): number => Math.ceil(random() * EVENTS_OF_A_DAEMON);
  let left = lifetime();
  const source = clusterEvents(random);
  for (let number = 1; number <= events; number++) {
    const event = source.next().value;
    state.apply(event);
    node.apply(event);
    // Some batches get several events, and some delays before a retry end before the next event.
    clock.pass(WAITS[Math.floor(random() * WAITS.length)] ?? 0);
    if (--left < 1) {
      left = lifetime();
      node.stop();
      node = new EventNode(faulty, clock, tables, state.events(), turn);
      restarts++;
    }
    if (number % compareEvery > 0 && number < events) continue;
    faulty.setRates(NO_FAULTS);
    node.settle(1);
    // The rules of a timeout that is not used any more are removed one turn later.
    for (let turns = turn === undefined ? 1 : MOST_TURNS; turns > 0; turns--) clock.pass(0);
    node.settle(1);
    const empty = fresh();
    const shuffled = state
      .events()
      .map((one) => [random(), one] as const)
      .toSorted(([a], [b]) => a - b)
      .map(([, one]) => one);
    const rebuilt = new EventNode(empty, clock, tables, shuffled);
    rebuilt.settle(0);
    assert.deepEqual(node.content(), rebuilt.content(), `after ${number} events`);
    rebuilt.stop();
    empty.close();
    comparisons++;
    faulty.setRates(comparisons % 2 === 0 ? FAULTS : NO_FAULTS);
  }
  node.stop();
  return { faults: faulty.faults, comparisons, restarts, elements: node.size };
}

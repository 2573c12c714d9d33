import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { type CallOutcome, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { testLab } from "../../support/suite_lab.ts";
import { randomFrom } from "../../support/random.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { containerState, podAddresses } from "../../support/cni/container_state.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { roundsFor } from "../../support/long_form.ts";

const PAIRS = roundsFor("pairs of calls in each storm", 100, 3000);
/** The kills inside calls until which the storm continues, twice as long at most. */
const LEAST_KILLS = 20;
const PARALLEL = 16;
const KILL_SHARE = 0.25;
/** How long a pod keeps its addresses at most, so that others are added meanwhile. */
const LONGEST_HOLD = 10;
const LONGEST_PAUSE_BETWEEN_READINGS = 20;

/** The exit code of `timeout` for a program that it has killed: 128 + SIGKILL. */
const KILLED = 137;

type Command = "ADD" | "DEL";

/** One run, with everything that it has counted. */
class Storm {
  readonly killed: Record<Command, number> = { ADD: 0, DEL: 0 };
  readonly duplicates: string[] = [];
  /** The number of killed ADDs after which the first DEL that ran to its end had cleared everything. */
  cleared = 0;
  readings = 0;
  mostWired = 0;
  readonly #wired: WiredNode;
  readonly #pods: readonly LabPod[];
  /** The duration of the last call that got through, in milliseconds; a guess before the first one. */
  readonly #lasted: Record<Command, number> = { ADD: 50, DEL: 50 };
  readonly #holders = new Map<string, string>();

  constructor(wired: WiredNode, pods: readonly LabPod[]) {
    this.#wired = wired;
    this.#pods = pods;
  }

  get kills(): number {
    return this.killed.ADD + this.killed.DEL;
  }

  /** Adds and removes a pod. Every decision comes from `random`, in the same order whatever happens. */
  async pair(pod: LabPod, random: () => number): Promise<void> {
    const added = await this.#call("ADD", pod, random);
    const addresses = added === undefined ? [] : podResult(added).ips.map(({ address }) => address);
    if (added !== undefined) assert.deepEqual(podAddresses(pod).toSorted(), addresses.toSorted());
    this.#hold(addresses, pod);
    await pause(random() * LONGEST_HOLD);
    for (const address of addresses) this.#holders.delete(address);
    // Only the store says what a killed ADD has claimed.
    const { reservations } = containerState(this.#wired, pod, addresses);
    while ((await this.#call("DEL", pod, random)) === undefined);
    const { neighbours, ...left } = containerState(this.#wired, pod, [...addresses, ...reservations]);
    assert.deepEqual(left, { links: ["lo"], reservations: [], records: [] });
    // A killed call may lose the place in the round robin, so that another pod has the address again.
    const given = new Set(readdirSync(`${this.#wired.node.dataDir}/drawbridge`));
    assert.deepEqual(
      neighbours.filter((address) => !given.has(address)),
      [],
    );
    if (added === undefined) this.cleared++;
  }

  /** Reads the addresses of all pods out of the kernel, at random moments, for as long as the condition holds. */
  async watch(random: () => number, goesOn: () => boolean): Promise<void> {
    while (goesOn()) {
      const held = this.#pods.flatMap(podAddresses);
      if (new Set(held).size !== held.length) this.duplicates.push(`in the kernel: ${held.toSorted().join(" ")}`);
      this.readings++;
      this.mostWired = Math.max(this.mostWired, held.length / 2);
      await pause(random() * LONGEST_PAUSE_BETWEEN_READINGS);
    }
  }

  /** Notes a pod's addresses: from its ADD until just before its DEL, no other pod may get them. */
  #hold(addresses: readonly string[], pod: LabPod): void {
    for (const address of addresses) {
      const holder = this.#holders.get(address);
      if (holder !== undefined) this.duplicates.push(`${address}: ${holder} and ${pod.name}`);
      this.#holders.set(address, pod.name);
    }
  }

  /** Makes a call, which may be killed. @returns undefined when the call was killed before its end */
  async #call(command: Command, pod: LabPod, random: () => number): Promise<CallOutcome | undefined> {
    const [lot, moment] = [random(), random()];
    const launcher = killedAfter(lot < KILL_SHARE ? moment * 1.2 * this.#lasted[command] : 0);
    const outcome = await startPlugin(this.#wired.node, podCall(command, this.#wired, pod, {}, { launcher })).outcome;
    if (outcome.exitCode === KILLED) {
      this.killed[command]++;
      return undefined;
    }
    assert.equal(outcome.exitCode, 0, `${command} ${pod.name}: ${outcome.stdout}`);
    this.#lasted[command] = outcome.milliseconds;
    return outcome;
  }
}

/**
 * Runs ADD and DEL in parallel and kills calls at random moments. The moments are uniform over 0 to 1.2 times the
 * duration of the last call, so the kills fall before, inside and after the work. Whatever state a kill leaves, one DEL
 * must clear it.
 */
describe("calls killed at any moment", function () {
  this.timeout(600_000);
  let lab: Lab;
  let wired: WiredNode;
  let pods: readonly LabPod[];

  beforeEach(function () {
    lab = testLab(this, "kill-storm");
    wired = twoNodes(lab).node1;
    pods = Array.from({ length: PARALLEL }, (_, i) => lab.pod(`w${i}`));
  });

  it(`P18: ${PAIRS} ADD/DEL pairs, ${PARALLEL} in parallel, one call in four killed: nothing leaks, no address is held twice`, async () => {
    const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 2 ** 31);
    const storm = new Storm(wired, pods);
    let next = 0;
    let working = PARALLEL;
    const work = async (pod: LabPod): Promise<void> => {
      try {
        // Each pair has its own random numbers: timing decides which worker makes the pair, but not what happens to it.
        while (next < PAIRS || (storm.kills < LEAST_KILLS && next < 2 * PAIRS)) {
          await storm.pair(pod, randomFrom(seed + next++));
        }
      } finally {
        working--;
      }
    };
    const watching = storm.watch(randomFrom(seed + 2 * PAIRS), () => working > 0);
    const ends = await Promise.allSettled([...pods.map(work), watching]);

    const { killed, cleared, readings, mostWired, duplicates } = storm;
    console.log(
      `      seed ${seed} (DRAWBRIDGE_SEED replays it), ${next} pairs: ${killed.ADD} ADDs and ${killed.DEL} DELs killed inside; ` +
        `${readings} readings of the kernel, up to ${mostWired} pods wired`,
    );
    assert.deepEqual(duplicates, []);
    for (const end of ends) if (end.status === "rejected") throw end.reason;
    assert.equal(cleared, killed.ADD);
    assert.ok(storm.kills >= LEAST_KILLS, `${storm.kills} calls were killed inside; expected at least ${LEAST_KILLS}`);
    assert.ok(mostWired > PARALLEL / 4, `never more than ${mostWired} pods were wired at once`);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
    const left = readdirSync(`${wired.node.dataDir}/.drawbridge`);
    assert.ok(left.length <= 1, `a killed claim leaves at most one scratch file, not ${left.join(", ")}`);
  });
});

/**
 * Returns a command line that runs a program and kills it after some milliseconds, or never for 0. A process of its own
 * does that, because sixteen calls keep this one so busy that a timer here would fire after the program has ended.
 */
function killedAfter(milliseconds: number): readonly string[] {
  return ["timeout", "--foreground", "--preserve-status", "--signal=KILL", (milliseconds / 1000).toFixed(6)];
}

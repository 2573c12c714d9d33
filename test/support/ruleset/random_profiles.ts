import assert from "node:assert/strict";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Change } from "../../../kernel/nftables/encode/change.ts";
import type { Table } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import { counter, drop, rule } from "../../../kernel/nftables/model/statement.ts";
import type { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { rulesetOver } from "./bench.ts";
import { contentOf } from "./content.ts";
import { type FaultRates, FaultyNftables } from "./faulty_nftables.ts";
import { TickingClock } from "../policy/live/ticking_clock.ts";
import { podClaims, profileChains, profileSets, profileTable, provideProfile, withdrawProfile } from "./provided.ts";

const PROFILES = 150;
const PODS = 20;
/** A number of profiles that needs more than one batch. */
const MANY = 120;
/** A daemon lives for this number of steps at most, so that every run has restarts. */
const STEPS_OF_A_DAEMON = 60;

const FAULTS: FaultRates = { commit: 0.2, read: 0.01 };
const NO_FAULTS: FaultRates = { commit: 0, read: 0 };

/** The numbers of failures and comparisons of a run. */
export interface RandomRun {
  readonly faults: number;
  readonly comparisons: number;
  readonly restarts: number;
  readonly harms: number;
}

export interface RandomRunParts {
  readonly kernel: Nftables;
  /** A kernel without any table. */
  readonly fresh: () => Nftables;
  readonly random: () => number;
  readonly steps: number;
  readonly comparisons: number;
}

/** The desired profiles, and the pods that have them. */
class Wanted {
  readonly profiles = new Map<number, number>();
  readonly pods = new Map<number, number>();

  apply(ruleset: Ruleset): void {
    for (const [number, value] of this.profiles) provideProfile(ruleset, number, value);
    for (const [pod, profile] of this.pods) ruleset.claim(`pod ${pod}`, podClaims(pod, profile));
  }
}

/**
 * Changes profiles at random on a kernel that fails and that other programs change, with restarts of the daemon. Again
 * and again it compares the kernel's content with the content after one fresh start.
 */
export function runRandomProfiles({ kernel, fresh, random, steps, comparisons }: RandomRunParts): RandomRun {
  const faulty = new FaultyNftables(kernel, random, NO_FAULTS);
  const table = profileTable();
  const clock = new TickingClock(0);
  const wanted = new Wanted();
  const below = (limit: number): number => Math.floor(random() * limit);
  let ruleset = rulesetOver(faulty, [table], { clock });
  ruleset.start();
  const seen = { faults: 0, comparisons: 0, restarts: 0, harms: 0 };

  /**
   * Whether the kernel fails and other programs change the tables, in every other stretch between comparisons. Both
   * make the ruleset read everything again, which would hide mistakes in its own account.
   */
  let isRough = false;

  const someTurns = (): void => {
    for (let turns = below(5); turns > 0; turns--) clock.tick();
  };
  const withdraw = (number: number): void => {
    wanted.profiles.delete(number);
    for (const [pod, profile] of wanted.pods) {
      if (profile !== number) continue;
      wanted.pods.delete(pod);
      ruleset.claim(`pod ${pod}`, []);
    }
    withdrawProfile(ruleset, number);
  };
  const provide = (number: number): void => {
    const value = below(50);
    wanted.profiles.set(number, value);
    provideProfile(ruleset, number, value);
  };
  const anyWanted = (): number | undefined => [...wanted.profiles.keys()][below(wanted.profiles.size)];
  const othersHarm = (number: number): void => {
    if (!isRough) return;
    seen.harms += harm(kernel, table, anyWanted() ?? number, below(6));
    ruleset.verify();
  };
  const restart = (): void => {
    ruleset.stop();
    ruleset = rulesetOver(faulty, [table], { clock });
    for (const profile of wanted.profiles.keys()) if (random() < 0.5) wanted.profiles.set(profile, below(50));
    // The ruleset may begin to read before it knows what is desired.
    const knowsBefore = random() < 0.5;
    if (knowsBefore) wanted.apply(ruleset);
    ruleset.start();
    if (!knowsBefore) {
      someTurns();
      wanted.apply(ruleset);
    }
    seen.restarts++;
  };
  const step = (): void => {
    const kind = random();
    const number = below(PROFILES);
    if (kind < 0.35) provide(number);
    else if (kind < 0.55) withdraw(number);
    else if (kind < 0.8) {
      const pod = below(PODS);
      const profile = anyWanted();
      if (profile === undefined) return;
      wanted.pods.set(pod, profile);
      ruleset.claim(`pod ${pod}`, podClaims(pod, profile));
    } else if (kind < 0.84) for (let one = 0; one < MANY; one++) provide((number + one) % PROFILES);
    else if (kind < 0.87) for (let one = 0; one < MANY; one++) withdraw((number + one) % PROFILES);
    else if (kind < 0.9) ruleset.flush();
    else othersHarm(number);
  };
  const compare = (): void => {
    faulty.setRates(NO_FAULTS);
    while (!ruleset.flush());
    // Where no other program has changed anything, the content is right without a full read.
    if (isRough) ruleset.verify();
    clock.pass(100);
    assert.equal(ruleset.status().isReconciled, true, ruleset.status().lastError);
    const other = fresh();
    const rebuilt = rulesetOver(other, [table], { clock });
    wanted.apply(rebuilt);
    rebuilt.start();
    assert.equal(rebuilt.flush(), true, rebuilt.status().lastError);
    const sets = [...new Set(wanted.profiles.keys())].flatMap(profileSets);
    assert.equal(contentOf(kernel, table, sets), contentOf(other, table, sets));
    other.close();
    seen.comparisons++;
    isRough = !isRough;
    // Every table exists now, so that this harm is accepted in every run.
    if (isRough) seen.harms += harm(kernel, table, below(PROFILES), NEW_CHAIN);
    faulty.setRates(isRough ? FAULTS : NO_FAULTS);
  };
  const lifetime = (): number => Math.ceil(random() * STEPS_OF_A_DAEMON);
  let left = lifetime();
  for (let done = 1; done <= steps; done++) {
    step();
    if (--left < 1) {
      restart();
      left = lifetime();
    }
    // Sometimes let it do a few slices, sometimes all, and now and then let the delays before retries pass.
    const pace = random();
    if (pace < 0.4) someTurns();
    else if (pace < 0.7) clock.pass(random() < 0.2 ? 200 : 0);
    if (done % Math.floor(steps / comparisons) === 0) compare();
  }
  ruleset.stop();
  seen.faults = faulty.faults;
  return seen;
}

/** The kind of {@link harm} that adds a chain. */
const NEW_CHAIN = 3;

/** Changes a table as another program may do it. @returns 1 when the kernel accepted the change */
function harm(kernel: Nftables, table: Table, number: number, kind: number): number {
  const [chain, second] = profileChains(number);
  const [, , parts] = profileSets(number);
  if (chain === undefined || second === undefined || parts === undefined) return 0;
  const harms: readonly (readonly Change[])[] = [
    [{ kind: "flush chain", table, chain: chain.name }],
    [{ kind: "add rule", table, chain: second.name, rule: rule(counter, drop) }],
    [{ kind: "flush set", table, set: parts }],
    [{ kind: "add chain", table, chain: { name: `stranger${number}` } }],
    [
      { kind: "flush chain", table, chain: chain.name },
      { kind: "delete set", table, set: parts },
    ],
    number % 10 === 0 ? [{ kind: "delete table", table }] : [{ kind: "flush chain", table, chain: "decide" }],
  ];
  try {
    kernel.commit(harms[kind] ?? []);
    return 1;
  } catch (error) {
    // The object of the change does not exist now.
    if (error instanceof DrawbridgeError) return 0;
    throw error;
  }
}

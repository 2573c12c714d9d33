import type { Lab } from "../../lab/lab.ts";
import { AddressCommits, COMMITS_SOURCE } from "../daemon/address_commits.ts";
import type { Access } from "./control_plane.ts";
import { firstSync } from "./first_sync.ts";
import type { SizedPlan } from "./plan.ts";
import { type Memory, processorSeconds } from "../process_usage.ts";
import { CHANGE_KINDS, type ChangeKind, type ServiceChanges } from "./service_changes.ts";
import type { ServiceProxy } from "./service_proxy.ts";

/** The measurements of one program in one round. */
export interface Measurement {
  /** The time in milliseconds. */
  readonly sync: number;
  /** Seconds of the processor for the first sync. */
  readonly syncProcessor: number;
  readonly syncMemory: Memory;
  /** Milliseconds of each change that was made by itself. */
  readonly single: ReadonlyMap<ChangeKind, readonly number[]>;
  /** Milliseconds of each change at the plan's rate. */
  readonly steady: readonly number[];
  /** Milliseconds of the processor for a change at the plan's rate. */
  readonly steadyProcessor: number;
  readonly memory: Memory;
}

/** The lab, the API server and the changes of a round. */
export interface Stage {
  readonly lab: Lab;
  readonly access: Access;
  readonly changes: ServiceChanges;
  readonly plan: SizedPlan;
}

/** Starts a program, makes all changes of the plan and ends it. */
export async function measureRound(
  { lab, access, changes, plan }: Stage,
  proxy: ServiceProxy,
  say: (step: string) => void,
): Promise<Measurement> {
  say("first sync");
  const synced = await firstSync(lab, proxy, access, plan.services);
  const { running, milliseconds: sync } = synced;
  using watch = synced.watch;
  const syncProcessor = processorSeconds(running.pid);
  const syncMemory = watch.memory();
  const events = proxy.node.notifications();
  const commits = new AddressCommits();
  try {
    await events.subscribe(COMMITS_SOURCE, commits);
    const single = new Map<ChangeKind, readonly number[]>();
    for (const kind of CHANGE_KINDS) {
      say(kind);
      single.set(kind, await changes.oneAtATime(kind, plan.singleChanges, commits));
    }
    say(`${plan.changesPerSecond} changes a second`);
    const before = processorSeconds(running.pid);
    const steady = await changes.atARate(commits);
    const steadyProcessor = (1000 * (processorSeconds(running.pid) - before)) / steady.length;
    return { sync, syncProcessor, syncMemory, single, steady, steadyProcessor, memory: watch.memory() };
  } finally {
    await events.stop();
    await running.end();
    proxy.node.exec("nft", ["flush", "ruleset"]);
  }
}

import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import type { ConntrackFilter } from "../../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import type { Relabelling } from "../../../kernel/conntrack/relabelling.ts";
import type { ConntrackOutcome, LabelChange } from "../../../kernel/conntrack/table.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Cancel, Clock } from "../../clock.ts";
import type { Ruleset } from "../../dataplane/ruleset.ts";
import type { Logger } from "../../log/logger.ts";
import type { FlowJudge } from "../live/flow_judge.ts";
import type { ChangedVerdicts, PolicyFollower } from "../live/policy_follower.ts";
import { ConnectionSet } from "./connection_set.ts";
import { FATE_LABELS, fateOf, flowState, isBroken } from "./fate.ts";
import { judgedFlow } from "./judged_flow.ts";
import type { Opening } from "./opening.ts";
import { pauseAfter } from "./pause.ts";
import { EVERY_FLOW } from "../../../kernel/conntrack/flow_count.ts";
import { Suspects } from "./suspects.ts";

/** The kernel's connections, of the node's network namespace. */
export interface PolicyFlows {
  /**
   * Goes through them.
   *
   * @param asked what the kernel is asked for, one list each
   * @throws DrawbridgeError (by the promise) when the kernel refuses
   */
  relabel(asked: readonly ConntrackFilter[], relabelling: Relabelling): Promise<void>;
  /** The node's own addresses. @throws DrawbridgeError when the kernel refuses */
  nodeAddresses(): ReadonlySet<Address>;
}

export interface CutsParts {
  readonly flows: PolicyFlows;
  /** What judges flows by the policies that are in force, and by the node's own addresses. */
  readonly judgeOf: (nodeAddresses: () => ReadonlySet<Address>) => FlowJudge;
  /** Whether it says what the rules do: while a change is worked out it is ahead of them. */
  readonly isSettled: () => boolean;
  /** Whose tables have the policies'. */
  readonly ruleset: Pick<Ruleset, "claim">;
  readonly opening: Opening;
  readonly clock: Clock;
  readonly logger: Logger;
  /** What is left of TCP connections that are cut is reset. */
  readonly policyReset: boolean;
}

/** What has been done so far. */
export interface CutsStatus {
  /** Connections that were let through and were stopped. */
  readonly cut: number;
  /** Connections that go on since they are allowed again. */
  readonly restored: number;
  /** Connections that pass without a label now. */
  readonly settled: number;
  /** Connections that are answered with resets now. */
  readonly reset: number;
  /** Times the kernel's connections were gone through. */
  readonly rounds: number;
  readonly failures: number;
  readonly lastError: string | undefined;
}

/** So long after a round the same flows are judged again: a packet that met the old rules has passed, or is lost. */
const SECOND_LOOK_MILLISECONDS = 300;
const FIRST_RETRY = 50;
const LAST_RETRY = 5000;
/** How often it is looked for what has ended, of connections that pass or are reset by their numbers. */
const UPKEEP_MILLISECONDS = 60_000;

/**
 * Has live connections follow the policies: those that a change denies stop in both directions within a moment, and go on
 * when they are allowed again, whoever sends first. What is not asked for by a change is left alone.
 *
 * The rules let a packet through by its connection's label, so this judges the kernel's connections as the rules judge a
 * first packet, when they are in force, and changes the label. A packet on its way that met the old rules can set it
 * after that, so the same connections are judged once more a little later. So they are when the judge was ahead of the rules:
 * what it went by may be taken back before it is in force, and nobody would tell of that.
 *
 * Rounds never overlap. What changes meanwhile is judged by the next one, after a pause ({@link pauseAfter}).
 */
export class Cuts implements PolicyFollower {
  readonly #parts: CutsParts;
  readonly #settled: ConnectionSet;
  readonly #reset: ConnectionSet;
  readonly #first = new Suspects();
  readonly #second = new Suspects();
  readonly #secondLooks = new Set<Cancel>();
  #upkeep: Cancel | undefined;
  #isUpkeepDue = false;
  #timer: Cancel | undefined;
  #isRunning = false;
  /** In this round flows were judged by what is not in force yet, and may never be. */
  #isAhead = false;
  #isStopped = false;
  /** When the next round may begin. */
  #earliest = Number.NEGATIVE_INFINITY;
  #retry = FIRST_RETRY;
  #isOpening = false;
  #counts = { cut: 0, restored: 0, rounds: 0, failures: 0 };
  #lastError: string | undefined;
  #nodeAddresses: ReadonlySet<Address> = new Set();
  readonly #judge: FlowJudge;

  constructor(parts: CutsParts) {
    this.#parts = parts;
    this.#judge = parts.judgeOf(() => this.#nodeAddresses);
    this.#settled = new ConnectionSet(parts.ruleset, "settled");
    this.#reset = new ConnectionSet(parts.ruleset, "cut");
  }

  /**
   * What has to be done before the rules are written, when all policies are known. It never fails: what cannot be done is
   * told, and then connections that are there already may stop until their clients send again or begin anew.
   *
   * Where an earlier daemon left the rules in force, what it let through by numbers is let through from the first batch
   * on. Where there are none, connections are labelled before the rules ask for labels: every new one by rules that do
   * nothing else ({@link Opening}), from then on, and those that are there already by a round through them all.
   */
  async prepare(): Promise<void> {
    const { opening, policyReset } = this.#parts;
    this.#isRunning = true;
    try {
      const { isInForce, settled, cut } = opening.read();
      for (const id of settled) this.#settled.add(id, false);
      for (const id of policyReset ? cut : []) this.#reset.add(id, false);
      this.#isOpening = !isInForce;
      if (!isInForce) {
        opening.open();
        const all = new Suspects();
        all.addAll();
        await this.#walk(all);
      }
    } catch (error) {
      this.#failed(error, "connections from before the policies are not let through by them");
    }
    this.#isRunning = false;
    this.#schedule();
  }

  /**
   * The kernel has all rules that follow from what was told by now. Those that label everything go before anything else
   * happens: a pod that waits for its policies is not told of them before.
   */
  rulesInForce(): void {
    this.#isOpening = false;
    try {
      this.#parts.opening.close();
    } catch (error) {
      this.#failed(error, "rules that let everything through are not removed; it is tried again");
      this.#isUpkeepDue = true;
      this.#schedule();
    }
  }

  /** "all" also means that connections may have begun while there was no table. */
  verdictsChanged({ withFlows }: ChangedVerdicts): void {
    if (withFlows === "all") this.#first.addAll();
    else this.#first.add(withFlows);
    this.#schedule();
  }

  status(): CutsStatus {
    return { ...this.#counts, settled: this.#settled.size, reset: this.#reset.size, lastError: this.#lastError };
  }

  problems(): readonly string[] {
    return this.#lastError === undefined ? [] : [`live connections do not follow the policies: ${this.#lastError}`];
  }

  stop(): void {
    this.#isStopped = true;
    for (const cancel of [this.#timer, this.#upkeep, ...this.#secondLooks]) cancel?.();
  }

  #schedule(): void {
    const { clock } = this.#parts;
    if (this.#isStopped || this.#isRunning || this.#timer !== undefined) return;
    if (this.#first.isEmpty && this.#second.isEmpty && !this.#isUpkeepDue) return;
    const wait = Math.max(0, this.#earliest - clock.now());
    this.#timer = clock.after(wait, () => {
      this.#timer = undefined;
      void this.#round();
    });
  }

  async #round(): Promise<void> {
    const { clock, opening } = this.#parts;
    const began = clock.now();
    this.#isRunning = true;
    this.#isUpkeepDue = this.#isAhead = false;
    const [first, second] = [this.#first.take(), this.#second.take()];
    const suspects = new Suspects();
    for (const some of [first, second]) suspects.addThoseOf(some);
    try {
      opening.close();
      await this.#walk(suspects);
      this.#lastError = undefined;
      this.#retry = FIRST_RETRY;
      this.#earliest = clock.now() + pauseAfter(clock.now() - began);
      this.#lookAgain(this.#isAhead ? suspects : first);
    } catch (error) {
      this.#failed(error, "live connections are not judged by changed policies; it is tried again");
      this.#first.addThoseOf(first);
      this.#second.addThoseOf(second);
      this.#isUpkeepDue = true;
      this.#earliest = clock.now() + this.#retry;
      this.#retry = Math.min(2 * this.#retry, LAST_RETRY);
    }
    this.#isRunning = false;
    this.#keepUp();
    this.#schedule();
  }

  #lookAgain(suspects: Suspects): void {
    if (this.#isStopped || suspects.isEmpty) return;
    const cancel = this.#parts.clock.after(SECOND_LOOK_MILLISECONDS, () => {
      this.#secondLooks.delete(cancel);
      this.#second.addThoseOf(suspects);
      this.#schedule();
    });
    this.#secondLooks.add(cancel);
  }

  #keepUp(): void {
    if (this.#isStopped || this.#upkeep !== undefined || this.#numbered === 0) return;
    this.#upkeep = this.#parts.clock.after(UPKEEP_MILLISECONDS, () => {
      this.#upkeep = undefined;
      this.#isUpkeepDue = true;
      this.#schedule();
    });
  }

  async #walk(suspects: Suspects): Promise<void> {
    const { flows, logger } = this.#parts;
    const before = { ...this.#counts };
    this.#nodeAddresses = flows.nodeAddresses();
    // Which of those known by number are gone, only a walk through everything tells.
    const isWhole = this.#numbered > 0;
    await flows.relabel(isWhole ? EVERY_FLOW : suspects.questions(), {
      glance: (flow, id) => this.#glance(flow, id, suspects),
      decide: (entry) => this.#decide(entry),
      changed: (change, outcome) => this.#changed(change, outcome),
    });
    if (isWhole) for (const set of [this.#settled, this.#reset]) set.endWalk();
    this.#counts.rounds++;
    const [cut, restored] = [this.#counts.cut - before.cut, this.#counts.restored - before.restored];
    if (cut + restored > 0) logger.info("live connections follow changed policies", { cut, restored });
  }

  /** How many connections pass or are reset by their numbers. */
  get #numbered(): number {
    return this.#settled.size + this.#reset.size;
  }

  #glance(flow: FlowTuples, id: () => number, suspects: Suspects): boolean {
    if (this.#numbered > 0) {
      const number = id();
      this.#settled.see(number);
      this.#reset.see(number);
    }
    return suspects.has(flow);
  }

  #decide(entry: ConntrackEntry): LabelChange["change"] | undefined {
    const { policyReset, isSettled } = this.#parts;
    const verdict = this.#judge(judgedFlow(entry));
    this.#isAhead ||= !isSettled();
    const state = flowState(entry.labels, this.#settled.has(entry.id));
    if (policyReset && entry.original.protocol === "tcp") {
      if (isBroken(verdict, state, this.#isOpening)) this.#reset.add(entry.id);
      else this.#reset.delete(entry.id);
    }
    const fate = fateOf(verdict, state, this.#isOpening);
    return fate === "none" ? undefined : FATE_LABELS[fate];
  }

  #changed({ key: { id }, change }: LabelChange<ConntrackEntry>, outcome: ConntrackOutcome): void {
    if (change === FATE_LABELS.cut) {
      if (outcome !== "absent") this.#counts.cut++;
      this.#settled.delete(id);
    } else if (outcome === "no-labels") {
      this.#settled.add(id);
    } else if (change === FATE_LABELS.restore && outcome === "done") {
      this.#counts.restored++;
    }
  }

  #failed(error: unknown, message: string): void {
    // What is no DrawbridgeError is a bug, and ends the daemon.
    if (!(error instanceof DrawbridgeError)) throw error;
    this.#counts.failures++;
    this.#lastError = error.message;
    this.#parts.logger.error(message, { error: error.message });
  }
}

import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import type { ConntrackFilter } from "../../../kernel/conntrack/filter.ts";
import type { FlowTuples } from "../../../kernel/conntrack/flow_tuples.ts";
import { flowQuestions, isFlowOf } from "../../../kernel/conntrack/flows_of_addresses.ts";
import type { Relabelling } from "../../../kernel/conntrack/relabelling.ts";
import type { ConntrackOutcome, LabelChange } from "../../../kernel/conntrack/table.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import type { Cancel, Clock } from "../../lib/clock.ts";
import { ControlLoop } from "../../lib/control_loop.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import type { Logger } from "../../log/logger.ts";
import type { FlowEvaluator } from "../live/flow_evaluator.ts";
import type { AffectedAddresses } from "../live/pods/affected_addresses.ts";
import type { ChangedVerdicts, PolicyFollower } from "../live/policy_follower.ts";
import { ConnectionNumbers } from "./connection_numbers.ts";
import { DECISION_LABELS, cutDecision, flowState, isBroken, policedFlow } from "./cut_decision.ts";
import type { StartupRules } from "./startup_rules.ts";
import { type Pause, pauseAfter } from "./pause.ts";
import { EVERY_FLOW } from "../../../kernel/conntrack/flow_count.ts";

/** The kernel's connections, of the node's network namespace. */
export interface PolicyFlows {
  /**
   * Goes through the connections.
   *
   * @param asked the filters of the lists that the kernel is asked for
   * @throws DrawbridgeError (by the promise) when the kernel refuses
   */
  relabel(asked: readonly ConntrackFilter[], relabelling: Relabelling): Promise<void>;
  /** The node's own addresses. @throws DrawbridgeError when the kernel refuses */
  nodeAddresses(): ReadonlySet<Address>;
}

export interface CutsParts {
  readonly flows: PolicyFlows;
  /** Returns the function that evaluates flows by the policies in force and the node's own addresses. */
  readonly evaluatorOf: (nodeAddresses: () => ReadonlySet<Address>) => FlowEvaluator;
  /** Whether these verdicts are those of the rules in force: while a change is being computed they are ahead. */
  readonly isSettled: () => boolean;
  /** Contains the table of policies. */
  readonly ruleset: Pick<Ruleset, "claim">;
  readonly opening: StartupRules;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Whether later packets of TCP connections that were cut are answered with resets. */
  readonly policyReset: boolean;
}

/** The numbers of connections so far. */
export interface CutsStatus {
  /** Connections that had been let through and were stopped. */
  readonly cut: number;
  /** Connections that continue because they are allowed again. */
  readonly restored: number;
  /** Connections that pass without a label now. */
  readonly settled: number;
  /** Connections that are answered with resets now. */
  readonly reset: number;
  readonly failures: number;
}

/** When, after a round, the same flows are checked again: by then a packet that met the old rules has passed. */
const SECOND_LOOK_MILLISECONDS = 300;
const FIRST_RETRY = 50;
const LAST_RETRY = 5000;
/** How often ended connections are removed from those that pass or are reset by their numbers. */
const UPKEEP_MILLISECONDS = 60_000;

/**
 * Makes live connections follow the policies: those that a change denies stop in both directions within a moment, and
 * continue when they are allowed again, whichever end sends first. Connections that no change concerns are not touched.
 *
 * The rules let a packet through by its connection's label. So when new rules are in force, this evaluates the kernel's
 * connections as the rules evaluate a first packet, and changes the label. A packet in transit that met the old rules
 * can set the label after that, so the same connections are checked again a little later. They are also checked again
 * if the verdicts were ahead of the rules: the change may be withdrawn before it is in force, without any notification.
 *
 * Rounds never overlap. The next one checks what changes meanwhile, after a pause ({@link pauseAfter}).
 */
export class Cuts implements PolicyFollower {
  readonly #parts: CutsParts;
  readonly #settled: ConnectionNumbers;
  readonly #reset: ConnectionNumbers;
  /** The addresses whose flows are checked for the first time, and again. */
  #first: Collected = new Set();
  #second: Collected = new Set();
  readonly #secondLooks = new Set<Cancel>();
  #upkeep: Cancel | undefined;
  #isUpkeepDue = false;
  readonly #loop: ControlLoop;
  #isPreparing = false;
  /** This round evaluated flows by changes that are not in force yet, and may never be. */
  #isAhead = false;
  /** The addresses of the last round, when it ended, and the pause after it. */
  #last: AffectedAddresses = new Set();
  #ended = Number.NEGATIVE_INFINITY;
  #pause: Pause = { others: 0, again: 0 };
  #retry = FIRST_RETRY;
  #isOpening = false;
  #counts = { cut: 0, restored: 0, failures: 0 };
  #lastError: string | undefined;
  #nodeAddresses: ReadonlySet<Address> = new Set();
  readonly #evaluate: FlowEvaluator;

  constructor(parts: CutsParts) {
    this.#parts = parts;
    const { clock } = parts;
    const pause = (): number => {
      const isAgain = [this.#first, this.#second].every((some) => isWithin(some, this.#last));
      return Math.max(0, this.#ended + this.#pause[isAgain ? "again" : "others"] - clock.now());
    };
    this.#loop = new ControlLoop({ clock, pass: () => this.#round(), pause });
    this.#evaluate = parts.evaluatorOf(() => this.#nodeAddresses);
    this.#settled = new ConnectionNumbers(parts.ruleset, "settled");
    this.#reset = new ConnectionNumbers(parts.ruleset, "cut");
  }

  /**
   * Prepares for the rules when all policies are known, before the rules are written. It never fails: failures are
   * logged, and then existing connections may stop until their clients send again or reconnect.
   *
   * If an earlier daemon left the rules in force, connections that it let through by their numbers are let through from
   * the first batch on. If there are no rules, connections are labelled before the rules require labels: new ones from
   * then on by rules that do nothing else ({@link StartupRules}), and existing ones by a round through all of them.
   */
  async prepare(): Promise<void> {
    const { opening, policyReset } = this.#parts;
    this.#isPreparing = true;
    try {
      const { isInForce, settled, cut } = opening.read();
      for (const id of settled) this.#settled.add(id, false);
      for (const id of policyReset ? cut : []) this.#reset.add(id, false);
      this.#isOpening = !isInForce;
      if (!isInForce) {
        opening.open();
        await this.#walk("all");
      }
    } catch (error) {
      this.#failed(error, "connections from before this start cannot be read or labelled, and may stop");
    }
    this.#isPreparing = false;
    this.#schedule();
  }

  /** Called when the kernel has all rules that follow from the changes so far. */
  rulesInForce(): void {
    this.#isOpening = false;
  }

  /** "all" also means that connections may have begun while there was no table. */
  verdictsChanged({ withFlows }: ChangedVerdicts): void {
    this.#first = joined(this.#first, withFlows);
    this.#schedule();
  }

  status(): CutsStatus {
    return { ...this.#counts, settled: this.#settled.size, reset: this.#reset.size };
  }

  problems(): readonly string[] {
    return this.#lastError === undefined ? [] : [`live connections do not follow the policies: ${this.#lastError}`];
  }

  stop(): void {
    void this.#loop.stop();
    for (const cancel of [this.#upkeep, ...this.#secondLooks]) cancel?.();
  }

  #schedule(): void {
    const isNothing = isEmpty(this.#first) && isEmpty(this.#second) && !this.#isUpkeepDue;
    if (!this.#isPreparing && !isNothing) this.#loop.enqueue();
  }

  async #round(): Promise<undefined> {
    const { clock } = this.#parts;
    const began = clock.now();
    this.#isUpkeepDue = this.#isAhead = false;
    const [first, second] = [this.#first, this.#second];
    [this.#first, this.#second] = [new Set(), new Set()];
    const suspects = joined(joined(new Set(), first), second);
    try {
      await this.#walk(suspects);
      this.#lastError = undefined;
      this.#retry = FIRST_RETRY;
      this.#pause = pauseAfter(clock.now() - began);
      this.#lookAgain(this.#isAhead ? suspects : first);
    } catch (error) {
      this.#failed(error, "live connections cannot be checked against changed policies; it is retried");
      this.#first = joined(this.#first, first);
      this.#second = joined(this.#second, second);
      this.#isUpkeepDue = true;
      this.#pause = { others: this.#retry, again: this.#retry };
      this.#retry = Math.min(2 * this.#retry, LAST_RETRY);
    }
    this.#last = suspects;
    this.#ended = clock.now();
    this.#keepUp();
    this.#schedule();
  }

  #lookAgain(suspects: AffectedAddresses): void {
    if (this.#loop.isStopped || isEmpty(suspects)) return;
    const cancel = this.#parts.clock.after(SECOND_LOOK_MILLISECONDS, () => {
      this.#secondLooks.delete(cancel);
      this.#second = joined(this.#second, suspects);
      this.#schedule();
    });
    this.#secondLooks.add(cancel);
  }

  #keepUp(): void {
    if (this.#loop.isStopped || this.#upkeep !== undefined || this.#numbered === 0) return;
    this.#upkeep = this.#parts.clock.after(UPKEEP_MILLISECONDS, () => {
      this.#upkeep = undefined;
      this.#isUpkeepDue = true;
      this.#schedule();
    });
  }

  async #walk(suspects: AffectedAddresses): Promise<void> {
    const { flows, logger } = this.#parts;
    const before = { ...this.#counts };
    this.#nodeAddresses = flows.nodeAddresses();
    // Only a walk through everything shows which of the connections known by number are gone.
    const isWhole = this.#numbered > 0;
    await flows.relabel(isWhole || suspects === "all" ? EVERY_FLOW : flowQuestions(suspects), {
      glance: (flow, id) => this.#glance(flow, id, suspects),
      decide: (entry) => this.#decide(entry),
      changed: (change, outcome) => this.#changed(change, outcome),
    });
    if (isWhole) for (const set of [this.#settled, this.#reset]) set.endWalk();
    const [cut, restored] = [this.#counts.cut - before.cut, this.#counts.restored - before.restored];
    if (cut + restored > 0) logger.info("live connections follow changed policies", { cut, restored });
  }

  /** The number of connections that pass or are reset by their numbers. */
  get #numbered(): number {
    return this.#settled.size + this.#reset.size;
  }

  #glance(flow: FlowTuples, id: () => number, suspects: AffectedAddresses): boolean {
    if (this.#numbered > 0) {
      const number = id();
      this.#settled.see(number);
      this.#reset.see(number);
    }
    return suspects === "all" || isFlowOf(flow, suspects);
  }

  #decide(entry: ConntrackEntry): LabelChange["change"] | undefined {
    const { policyReset, isSettled } = this.#parts;
    const verdict = this.#evaluate(policedFlow(entry));
    this.#isAhead ||= !isSettled();
    const state = flowState(entry.labels, this.#settled.has(entry.id));
    if (policyReset && entry.original.protocol === "tcp") {
      if (isBroken(verdict, state, this.#isOpening)) this.#reset.add(entry.id);
      else this.#reset.delete(entry.id);
    }
    const decision = cutDecision(verdict, state, this.#isOpening);
    return decision === "none" ? undefined : DECISION_LABELS[decision];
  }

  #changed({ key: { id }, change }: LabelChange<ConntrackEntry>, outcome: ConntrackOutcome): void {
    if (change === DECISION_LABELS.cut) {
      if (outcome !== "absent") this.#counts.cut++;
      this.#settled.delete(id);
    } else if (outcome === "no-labels") {
      this.#settled.add(id);
    } else if (change === DECISION_LABELS.restore && outcome === "done") {
      this.#counts.restored++;
    }
  }

  #failed(error: unknown, message: string): void {
    // Any other error is a bug, and ends the daemon.
    if (!(error instanceof DrawbridgeError)) throw error;
    this.#counts.failures++;
    this.#lastError = error.message;
    this.#parts.logger.error(message, { error: error.message });
  }
}

/** The addresses whose flows the next round checks. The set grows in place: a commit may add thousands. */
type Collected = Set<Address> | "all";

/** Adds some addresses to those that were collected. @returns all of them */
function joined(collected: Collected, some: AffectedAddresses): Collected {
  if (collected === "all" || some === "all") return "all";
  for (const address of some) collected.add(address);
  return collected;
}

/** Whether the flows of some addresses are all among those of others, which are not all flows. */
function isWithin(some: AffectedAddresses, others: AffectedAddresses): boolean {
  return some !== "all" && others !== "all" && [...some].every((address) => others.has(address));
}

function isEmpty(some: AffectedAddresses): boolean {
  return some !== "all" && some.size === 0;
}

import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { AttachmentName } from "../../attachment/policyd_messages.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { AttachmentFollower, RemainingFlows } from "../attachments/follower.ts";
import { attachmentKey } from "../attachments/registry.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { ObjectConsumer } from "../component.ts";
import type { Commit } from "../ruleset/difference.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import type { CollectionPace } from "../lib/collection_pace.ts";
import { workFor } from "../lib/sliced_work.ts";
import type { ObjectChange } from "../../objects/model.ts";
import { effectOf } from "./live/pods/affected_addresses.ts";
import { FlowlessAddresses } from "./live/pods/flowless_addresses.ts";
import { type LiveParts, LivePolicies } from "./live/live_policies.ts";
import type { PolicyFollower } from "./live/policy_follower.ts";
import { policyRules } from "./live/policy_rules.ts";

/** The longest time the event loop is blocked: the batch of computed changes is often written in the same turn. */
const SLICE_MILLISECONDS = 5;
/** The same if other work has taken longer since the last slice, such as reading very large objects. */
const LONGEST_SLICE_MILLISECONDS = 50;

export interface PolicyEnforcementParts
  extends Pick<LiveParts, "nodeName" | "options" | "roomBounds">, Partial<Pick<LiveParts, "isEarlier">> {
  /** The ruleset with the table of policies. Its owner starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim" | "provide" | "committed" | "isReconciled">;
  readonly clock: Clock;
  /** Hurried while a change takes more than a slice, since the heap fills up then; undefined leaves the pace to V8. */
  readonly collectionPace?: CollectionPace;
}

/**
 * Enforces policies on this node. It computes the effect of a change in slices and lets everything else run in between;
 * a small change is one slice, and is written in one batch with everything else that changed with it.
 */
export class PolicyEnforcement implements ObjectConsumer, AttachmentFollower {
  readonly #parts: PolicyEnforcementParts;
  readonly #live: LivePolicies;
  readonly #flowless = new FlowlessAddresses();
  readonly #followers: PolicyFollower[] = [];
  readonly #waiting = new Map<string, ((error: DrawbridgeError | undefined) => void)[]>();
  readonly #preparing: (() => void)[] = [];
  #isStarted = false;
  #next: Cancel | undefined;
  /** The milliseconds of the next slice: as long as everything else had since the last one, within bounds. */
  #slice = SLICE_MILLISECONDS;
  /** Whether rules were changed since the kernel last had all of them. */
  #isAhead = false;

  constructor(parts: PolicyEnforcementParts) {
    this.#parts = parts;
    const { ruleset } = parts;
    const rules = policyRules(ruleset, () => (this.#isAhead = true));
    this.#live = new LivePolicies({ ...parts, rules, isEarlier: parts.isEarlier });
    ruleset.committed.subscribe((commit) => this.#rulesInForce(commit));
  }

  /** Notifies a follower of flows whose verdict may have changed. */
  follow(follower: PolicyFollower): void {
    this.#followers.push(follower);
  }

  /** The policies and pods as known now, to be read: what the rules follow from. */
  get live(): Pick<LivePolicies, "members" | "locals" | "profiles" | "policiesOf" | "setTotals"> {
    return this.#live;
  }

  /** Whether verdicts by {@link live} are those of the kernel's rules: not while a change is computed and written. */
  get isSettled(): boolean {
    return this.isWorkedOut && (!this.#isAhead || this.#parts.ruleset.isReconciled);
  }

  /** Whether the desired rules follow from all objects and attachments; false while changes are computed in slices. */
  get isWorkedOut(): boolean {
    return this.#next === undefined;
  }

  apply(changes: readonly ObjectChange[]): void {
    this.#live.change(changes);
    this.#work();
  }

  synced(): void {
    this.#isStarted = true;
    this.#live.start();
    this.#work();
  }

  awaits(attachment: AttachmentRecord): string | undefined {
    return this.#live.awaits(attachmentKey(attachment));
  }

  attached(attachment: AttachmentRecord, flows: RemainingFlows): void {
    const key = attachmentKey(attachment);
    const addresses = attachment.addresses.map(({ address }) => address);
    // An address that another network has also assigned may already have flows.
    const isNew = addresses.every((address) => this.#live.locals.at(address) === undefined);
    if (flows === "none" && isNew) this.#flowless.comes(key, addresses);
    this.#live.attach(attachment);
    this.#work();
  }

  detached(name: AttachmentName, flows: RemainingFlows): void {
    const key = attachmentKey(name);
    const addresses = this.#live.locals.get(key)?.addresses ?? [];
    this.#flowless.goes(key, flows === "none" ? addresses : []);
    this.#live.detach(name);
    this.#work();
    this.#settleWaiting(key, removedBefore());
  }

  async inForce(name: AttachmentName): Promise<void> {
    const key = attachmentKey(name);
    // Otherwise the caller would wait forever.
    if (this.#live.locals.get(key) === undefined) throw removedBefore();
    if (this.#live.isClaimed(key) && this.#parts.ruleset.isReconciled) return;
    const error = await new Promise<DrawbridgeError | undefined>((settle) => {
      this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), settle]);
    });
    if (error !== undefined) throw error;
  }

  async prepared(): Promise<void> {
    if (!this.#isStarted || this.#next !== undefined) await new Promise<void>((settle) => this.#preparing.push(settle));
    for (const follower of this.#followers) await follower.prepare?.();
  }

  problems(): readonly string[] {
    return [this.#live.problems(), ...this.#followers.map((follower) => follower.problems?.() ?? [])].flat();
  }

  async stop(): Promise<void> {
    this.#next?.();
    for (const follower of this.#followers) follower.stop();
  }

  /** Works for one slice; the rest follows after everything else that waits in the event loop. */
  #work(): void {
    if (this.#next !== undefined) return;
    const { clock, collectionPace } = this.#parts;
    if (!workFor(this.#slice, clock, () => this.#live.step())) {
      collectionPace?.hurry();
      const end = clock.now();
      this.#next = clock.after(0, () => {
        this.#next = undefined;
        this.#slice = Math.min(Math.max(SLICE_MILLISECONDS, clock.now() - end), LONGEST_SLICE_MILLISECONDS);
        this.#work();
      });
      return;
    }
    this.#slice = SLICE_MILLISECONDS;
    collectionPace?.rest();
    if (this.#isStarted) for (const settle of this.#preparing.splice(0)) settle();
  }

  #rulesInForce(commit: Commit): void {
    this.#isAhead = false;
    for (const key of this.#waiting.keys()) {
      if (this.#live.isClaimed(key)) this.#settleWaiting(key, undefined);
    }
    const effect = effectOf(commit);
    const flowless = this.#flowless.settle(effect, (key) => this.#live.isClaimed(key));
    const addresses = effect?.affected ?? "all";
    const withFlows =
      addresses === "all" ? addresses : new Set([...addresses].filter((address) => !flowless.has(address)));
    for (const follower of this.#followers) {
      follower.rulesInForce?.();
      if (addresses === "all" || addresses.size > 0) follower.verdictsChanged?.({ addresses, withFlows });
    }
  }

  #settleWaiting(key: string, error: DrawbridgeError | undefined): void {
    const waiting = this.#waiting.get(key) ?? [];
    this.#waiting.delete(key);
    for (const settle of waiting) settle(error);
  }
}

function removedBefore(): DrawbridgeError {
  return new DrawbridgeError("ERR_UNAVAILABLE", "the attachment was removed before its policies were in force");
}

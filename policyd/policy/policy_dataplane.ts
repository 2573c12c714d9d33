import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { AttachmentName } from "../../ipam/policyd_messages.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { AttachmentFollower, RemainingFlows } from "../attachments/follower.ts";
import { attachmentKey } from "../attachments/registry.ts";
import type { Cancel, Clock } from "../clock.ts";
import type { Dataplane } from "../dataplane.ts";
import type { Commit } from "../dataplane/commit.ts";
import type { Ruleset } from "../dataplane/ruleset.ts";
import type { CollectionPace } from "../collection_pace.ts";
import { workFor } from "../slices.ts";
import type { ObjectChange } from "../source/object_source.ts";
import type { PolicyOptions } from "./compile/options.ts";
import { affectedBy } from "./live/affected_addresses.ts";
import type { FlowJudge } from "./live/flow_judge.ts";
import { flowJudge } from "./live/flow_judge.ts";
import { FlowlessAddresses } from "./live/flowless_addresses.ts";
import { LivePolicies } from "./live/live_policies.ts";
import type { PolicyFollower } from "./live/policy_follower.ts";
import { policyRules } from "./live/policy_rules.ts";
import type { PolicyView } from "./live/policy_view.ts";
import { policyView } from "./live/policy_view.ts";
import type { RoomBounds } from "./live/set_room.ts";
import type { RetainedStore } from "./retained/retained_files.ts";

/** How long the event loop may be held up at once: the batch of what was worked out is often the same turn's. */
const SLICE_MILLISECONDS = 5;

export interface PolicyDataplaneParts {
  readonly nodeName: string;
  /** Which has the table of policies. Whoever owns it starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim" | "provide" | "follow" | "isSynced">;
  readonly clock: Clock;
  readonly options: PolicyOptions;
  readonly retained: RetainedStore;
  /** Each pod's Namespace is told sooner or later, as by an API server; absent for false. */
  readonly areNamespacesTold?: boolean;
  /** Hurried while a change takes more than a slice, as it fills the heap then; undefined leaves V8 alone. */
  readonly collectionPace?: CollectionPace;
  /** How much room the sets of NetworkPolicies have; absent for the usual bounds. */
  readonly roomBounds?: RoomBounds;
}

interface Waiting {
  readonly settle: (error: DrawbridgeError | undefined) => void;
}

/**
 * Policies on this node. What they make of a change is worked out in slices, between which everything else goes on; a
 * small change is one slice, and in the same batch as what else changed with it.
 */
export class PolicyDataplane implements Dataplane, AttachmentFollower {
  readonly #parts: PolicyDataplaneParts;
  readonly #live: LivePolicies;
  readonly #flowless = new FlowlessAddresses();
  readonly #followers: PolicyFollower[] = [];
  readonly #waiting = new Map<string, Waiting[]>();
  readonly #preparing: (() => void)[] = [];
  #isStarted = false;
  #next: Cancel | undefined;
  /** The rules were to be changed since the kernel had all of them. */
  #isAhead = false;

  constructor(parts: PolicyDataplaneParts) {
    this.#parts = parts;
    const { ruleset } = parts;
    const { areNamespacesTold = false } = parts;
    const rules = policyRules(ruleset, () => (this.#isAhead = true));
    this.#live = new LivePolicies({ ...parts, rules, areNamespacesTold });
    ruleset.follow((commit) => this.#rulesInForce(commit));
  }

  /** Has somebody told of flows that may be judged otherwise. */
  follow(follower: PolicyFollower): void {
    this.#followers.push(follower);
  }

  /** What the rules say of flows. @param nodeAddresses the node's own, by now */
  flowJudge(nodeAddresses: () => ReadonlySet<Address>): FlowJudge {
    return flowJudge(this.#live, this.#parts.options, nodeAddresses);
  }

  /** Whether {@link flowJudge} says what the kernel's rules do; while a change is worked out and written it is ahead of them. */
  get isSettled(): boolean {
    return this.isWorkedOut && (!this.#isAhead || this.#parts.ruleset.isSynced);
  }

  /** Whether the rules that follow from all objects and attachments are desired; false while changes are worked out in slices. */
  get isWorkedOut(): boolean {
    return this.#next === undefined;
  }

  /** Keys of the policies that allow some pods of the node nothing for the size of those before them (POL-73). */
  leftOut(): ReadonlyMap<string, unknown> {
    return this.#live.profiles.leftOut;
  }

  /** Returns the keys of the policies that do not allow all they say, since sets of theirs would have too many elements (POL-93). */
  closedPolicies(): ReadonlySet<string> {
    return this.#live.profiles.closedPolicies();
  }

  setTotals(): ReturnType<LivePolicies["setTotals"]> {
    return this.#live.setTotals();
  }

  view(): PolicyView {
    return policyView(this.#live);
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

  /** Attachments are told by the node's dataplane, which knows which of them are there ({@link attached}). */
  async register(): Promise<void> {}

  async unregister(): Promise<void> {}

  awaits(attachment: AttachmentRecord): string | undefined {
    return this.#live.awaits(attachmentKey(attachment));
  }

  attached(attachment: AttachmentRecord, flows: RemainingFlows): void {
    const key = attachmentKey(attachment);
    const addresses = attachment.addresses.map(({ address }) => address);
    // An address that another network has given, too, has its flows.
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
    // Nobody would ever answer.
    if (this.#live.locals.get(key) === undefined) throw removedBefore();
    if (this.#live.isClaimed(key) && this.#parts.ruleset.isSynced) return;
    const error = await new Promise<DrawbridgeError | undefined>((settle) => {
      this.#waiting.set(key, [...(this.#waiting.get(key) ?? []), { settle }]);
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

  /** Works for the length of a slice; what is left has its turn after everything else that waits for one. */
  #work(): void {
    if (this.#next !== undefined) return;
    const { clock, collectionPace } = this.#parts;
    if (!workFor(SLICE_MILLISECONDS, clock, () => this.#live.step())) {
      collectionPace?.hurry();
      this.#next = clock.after(0, () => {
        this.#next = undefined;
        this.#work();
      });
      return;
    }
    collectionPace?.rest();
    if (this.#isStarted) for (const settle of this.#preparing.splice(0)) settle();
  }

  #rulesInForce(commit: Commit): void {
    this.#isAhead = false;
    for (const key of this.#waiting.keys()) {
      if (this.#live.isClaimed(key)) this.#settleWaiting(key, undefined);
    }
    const addresses = affectedBy(commit);
    const flowless = this.#flowless.settle(commit, (key) => this.#live.isClaimed(key));
    const withFlows =
      addresses === "all" ? addresses : new Set([...addresses].filter((address) => !flowless.has(address)));
    for (const follower of this.#followers) {
      follower.rulesInForce?.();
      if (addresses === "all" || addresses.size > 0) follower.verdictsChanged({ addresses, withFlows });
    }
  }

  #settleWaiting(key: string, error: DrawbridgeError | undefined): void {
    const waiting = this.#waiting.get(key) ?? [];
    this.#waiting.delete(key);
    for (const { settle } of waiting) settle(error);
  }
}

function removedBefore(): DrawbridgeError {
  return new DrawbridgeError("ERR_UNAVAILABLE", "the attachment was removed before its policies were in force");
}

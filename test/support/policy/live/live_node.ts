import { tableState } from "../../nftables/table_state.ts";
import assert from "node:assert/strict";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import type { AttachmentName } from "../../../../attachment/policyd_messages.ts";
import { keyText } from "../../../../kernel/nftables/encode/element.ts";
import type { Element, Table } from "../../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../../kernel/nftables/socket.ts";
import type { RemainingFlows } from "../../../../policyd/attachments/follower.ts";
import type { ClusterObject, ObjectChange } from "../../../../objects/model.ts";
import { rulesText } from "../../../../policyd/ruleset/observed/known_rules.ts";
import { Ruleset } from "../../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../../policyd/ruleset/schema.ts";
import { recordingLogger } from "../../recording_logger.ts";
import type { CollectionPace } from "../../../../policyd/lib/collection_pace.ts";
import { DEFAULT_POLICY_OPTIONS, type PolicyOptions } from "../../../../policyd/policies/compile/options.ts";
import { POLICY_TABLE, policyTable } from "../../../../policyd/policies/compile/policy_table.ts";
import { PolicyEnforcement } from "../../../../policyd/policies/policy_enforcement.ts";
import type { RoomBounds } from "../../../../policyd/policies/live/sets/set_room.ts";
import type { TickingClock } from "./ticking_clock.ts";

/** An event for a node's policies. */
export type LiveEvent =
  | { readonly type: "objects"; readonly changes: readonly ObjectChange[] }
  | { readonly type: "attached"; readonly attachment: AttachmentRecord; readonly flows?: RemainingFlows }
  | { readonly type: "detached"; readonly name: AttachmentName; readonly flows?: RemainingFlows };

/** Returns the change for a new or changed object. */
export function set(object: ClusterObject): ObjectChange {
  return { type: "set", kind: object.kind, key: object.key, object };
}

/** Returns the change for a deleted object. */
export function gone({ kind, key }: Pick<ClusterObject, "kind" | "key">): ObjectChange {
  return { type: "delete", kind, key };
}

export interface LiveNodeParts {
  readonly kernel: Nftables;
  readonly clock: TickingClock;
  readonly options?: PolicyOptions;
  readonly collectionPace?: CollectionPace;
  readonly isEarlier?: (key: string) => boolean;
  readonly roomBounds?: RoomBounds;
  /** Events that it receives before it writes anything, like a daemon that reads the cluster first. */
  readonly known?: readonly LiveEvent[];
}

/** A node's table of policies, which the daemon's own parts keep according to events. */
export class LiveNode {
  readonly component: PolicyEnforcement;
  readonly ruleset: Ruleset;
  readonly #kernel: Nftables;
  readonly #clock: TickingClock;

  constructor({ kernel, clock, options = DEFAULT_POLICY_OPTIONS, known = [], ...parts }: LiveNodeParts) {
    this.#kernel = kernel;
    this.#clock = clock;
    const tables = [withVersion(policyTable(options))];
    const periods = { obsolete: [], minSyncPeriod: 0, syncPeriod: 3_600_000 };
    this.ruleset = new Ruleset({ kernel, clock, logger: recordingLogger(), tables, ...periods });
    this.component = new PolicyEnforcement({
      nodeName: "node1",
      ruleset: this.ruleset,
      clock,
      options,
      ...parts,
    });
    for (const event of known) this.apply(event);
    this.component.synced();
    this.#clock.pass(0);
    this.ruleset.start();
  }

  apply(event: LiveEvent): void {
    if (event.type === "objects") this.component.apply(event.changes);
    else if (event.type === "attached") this.component.attached(event.attachment, event.flows ?? "unknown");
    else this.component.detached(event.name, event.flows ?? "unknown");
  }

  /** Applies changes of objects, and runs everything that follows from them. */
  change(...changes: readonly ObjectChange[]): void {
    this.apply({ type: "objects", changes });
    this.settle();
  }

  /** Makes the kernel have the desired state. @throws AssertionError when it does not after this number of retries */
  settle(tries = 0): void {
    this.#clock.pass(0);
    for (let left = tries; !this.ruleset.flush(); left--) assert.ok(left > 0, this.ruleset.status().lastError);
  }

  /** Runs the work that is due by now, which with a slow clock is one slice. */
  tick(): void {
    this.#clock.tick();
  }

  /** Returns the kernel's table: a line for each set with its elements, and for each rule. */
  content(): string {
    const state = tableState(this.#kernel, POLICY_TABLE);
    const sets = [...(state?.sets.keys() ?? [])].sort().map((name) => `${name}: ${this.elements(name).join(", ")}`);
    const chains = [...(state?.chains ?? [])]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([name, { rules }]) => `${name}:\n${rulesText(rules)}`);
    return [...sets, ...chains].join("\n");
  }

  /** Returns the elements of a set, in order. */
  elements(name: string): readonly string[] {
    return this.#kernel.elements(POLICY_TABLE, { name, key: [] }).map(elementText).sort();
  }

  /**
   * Returns the elements of a map of verdicts that go to a profile's chain, in order; those of pods that no policy
   * selects are omitted.
   */
  judged(map: "egress4" | "egress6" | "ingress4" | "ingress6"): readonly string[] {
    return this.elements(map).filter((text) => / : goto /.test(text));
  }

  /** Returns the names of the sets and chains that exist in addition to the static ones. */
  provided(): readonly string[] {
    const state = tableState(this.#kernel, POLICY_TABLE);
    const fixed = new Set(
      this.ruleset.tables.flatMap(({ sets, chains }: Table) => [...sets, ...chains].map((one) => one.name)),
    );
    return [...(state?.sets.keys() ?? []), ...(state?.chains.keys() ?? [])].filter((name) => !fixed.has(name)).sort();
  }

  /** Stops like a daemon that ends. */
  stop(): void {
    void this.component.stop();
    this.ruleset.stop();
  }
}

/** Returns an element as a text, which is equal for equal elements. */
export function elementText({ key, data }: Element): string {
  if (data === undefined) return keyText(key);
  return `${keyText(key)} : ${"kind" in data && "chain" in data ? `${data.kind} ${data.chain}` : JSON.stringify(data)}`;
}

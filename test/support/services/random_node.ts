import { type InTurn, inTurn } from "../node/in_turn.ts";
import assert from "node:assert/strict";
import { NodeJudge } from "../../../objects/nodes/node_judge.ts";
import type { Table } from "../../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../../kernel/nftables/socket.ts";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import type { ClusterObject, ObjectChange } from "../../../objects/model.ts";
import type { Clock } from "../../../policyd/lib/clock.ts";
import type { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";
import { rulesetOver } from "../ruleset/bench.ts";
import { attachmentElements } from "../../../policyd/node/attachment_elements.ts";
import { nodeTables } from "../../../policyd/node/tables/tables.ts";
import { NodeAddressSets } from "../../../policyd/node/node_address_sets.ts";
import { ProtectedSocketIndex } from "../../../policyd/protection/socket_index.ts";
import { ServiceProxy } from "../../../policyd/services/service_proxy.ts";
import { serviceElements } from "../../../policyd/services/elements/node_elements.ts";
import type { TurnBounds } from "../../../policyd/services/service_turns.ts";
import { contentOf } from "../ruleset/content.ts";
import { NODE_CONFIGURATION } from "../guard/guarded_node.ts";
import type { ClusterEvent } from "./random_events.ts";
import { SERVICE_RULES } from "./scenario.ts";

/** The state of a cluster after some events. */
export class ClusterState {
  readonly #objects = new Map<string, ClusterObject>();
  readonly #attachments = new Map<string, AttachmentRecord>();

  apply(event: ClusterEvent): void {
    if (event.type === "attachment") {
      if (event.attachment === undefined) this.#attachments.delete(event.name);
      else this.#attachments.set(event.name, event.attachment);
      return;
    }
    const { change } = event;
    if (change.type === "set") this.#objects.set(`${change.kind} ${change.key}`, change.object);
    else this.#objects.delete(`${change.kind} ${change.key}`);
  }

  /** Returns the number of objects of a kind. */
  count(kind: ClusterObject["kind"]): number {
    return [...this.#objects.values()].filter((object) => object.kind === kind).length;
  }

  /** Returns the events from which a new node learns the whole state, in any order. */
  events(): readonly ClusterEvent[] {
    return [
      ...[...this.#objects.values()].map((object): ClusterEvent => ({ type: "object", change: settingOf(object) })),
      ...[...this.#attachments].map(([name, attachment]): ClusterEvent => ({ type: "attachment", name, attachment })),
    ];
  }
}

function settingOf(object: ClusterObject): ObjectChange {
  return { type: "set", kind: object.kind, key: object.key, object };
}

/** The tables of a node with Services, as the daemon has them. */
export const TABLES: readonly Table[] = nodeTables({ ...NODE_CONFIGURATION, services: SERVICE_RULES }).map(withVersion);

/**
 * The same tables without rules, which never change: comparing them after each failure would take most of the time of a
 * test with thousands of events.
 */
export const TABLES_WITHOUT_RULES: readonly Table[] = TABLES.map((table) =>
  withVersion({
    ...table,
    chains: table.chains.flatMap(({ name, base }) => (base === undefined ? [{ name, rules: [] }] : [])),
  }),
);

/** The tables of node n1, which the daemon's own parts keep according to events. */
export class EventNode {
  readonly #kernel: Nftables;
  readonly #ruleset: Ruleset;
  readonly #components: InTurn;

  /** @param known events that it receives before it writes anything, like a daemon that reads the cluster first */
  constructor(
    kernel: Nftables,
    clock: Clock,
    tables: readonly Table[],
    known: readonly ClusterEvent[] = [],
    turn?: TurnBounds,
  ) {
    this.#kernel = kernel;
    this.#ruleset = rulesetOver(kernel, tables, { clock });
    const judge = new NodeJudge({ nodeName: "n1", ownCidrs: [] });
    const protection = new ProtectedSocketIndex({ ports: [], sockets: [] }, judge);
    const proxy = new ServiceProxy({
      nodeName: "n1",
      ruleset: this.#ruleset,
      clock,
      nodePortAddresses: ["primary"],
      refuseExternalIps: false,
      protection,
      ...(turn && { turn }),
    });
    const ofNodes = { nodeName: "n1", isTunnel: false, nodePortAddresses: [], judge };
    this.#components = inTurn(judge, new NodeAddressSets({ ruleset: this.#ruleset, ...ofNodes }), protection, proxy);
    for (const event of known) this.apply(event);
    proxy.synced();
    this.#ruleset.start();
  }

  apply(event: ClusterEvent): void {
    if (event.type === "object") return this.#components.apply([event.change]);
    const { name, attachment } = event;
    const claims = attachment === undefined ? [] : [...attachmentElements(attachment), ...serviceElements(attachment)];
    this.#ruleset.claim(`attachment ${name}`, claims);
  }

  /** Makes the kernel have the desired state. @throws AssertionError when it does not after this number of retries */
  settle(tries: number): void {
    for (let left = tries; !this.#ruleset.flush(); left--) assert.ok(left > 0, this.#ruleset.status().lastError);
  }

  /** Returns the kernel's content of each table. */
  content(): readonly string[] {
    return this.#ruleset.tables.map((table) => contentOf(this.#kernel, table));
  }

  /** The number of desired elements. */
  get size(): number {
    return this.#ruleset.status().elements;
  }

  /** Stops like a daemon that ends. */
  stop(): void {
    this.#ruleset.stop();
  }
}

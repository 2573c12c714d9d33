import { type InTurn, inTurn } from "../node/in_turn.ts";
import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { listAttachments } from "../../../attachment/attachment_reader.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { type Address, familyOf, FAMILIES } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { realClock } from "../../../policyd/lib/clock.ts";
import { FakeClock } from "../fake_clock.ts";
import type { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";
import { withoutDynamicSets } from "../nftables/listing.ts";
import { rulesetOver } from "../ruleset/bench.ts";
import { NodeAddressSets } from "../../../policyd/node/node_address_sets.ts";
import { kernelSockets } from "../../../policyd/node/masquerade/taken_ports.ts";
import { yieldedParts } from "../../../policyd/services/open.ts";
import { YieldedFrontends, type YieldedParts } from "../../../policyd/services/yielded_frontends.ts";
import { attachmentElements, attachmentHooks } from "../../../policyd/node/attachment_elements.ts";
import { INET_TABLE } from "../../../policyd/ruleset/table_part.ts";
import { nodeTables } from "../../../policyd/node/tables/tables.ts";
import { NodeJudge } from "../../../objects/nodes/node_judge.ts";
import type { ConfiguredSockets } from "../../../objects/socket_refusal.ts";
import { keptChains, keptElement } from "../../../policyd/protection/nat_exemption.ts";
import { ProtectedSocketIndex } from "../../../policyd/protection/socket_index.ts";
import type { ClusterObject } from "../../../objects/model.ts";
import type { NodePortAddresses, ServiceRules } from "../../../policyd/services/rules/context.ts";
import { ServiceProxy } from "../../../policyd/services/service_proxy.ts";
import { serviceElements } from "../../../policyd/services/elements/node_elements.ts";
import { add } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { NODE_CONFIGURATION } from "../guard/guarded_node.ts";
import { readScenario, SERVICE_RULES } from "./scenario.ts";
import { droppedPackets } from "../nftables/dropped_packets.ts";

/** A pod as the plugin wires it. */
export interface ServicedPod {
  readonly namespace: LabPod;
  readonly record: AttachmentRecord;
  readonly addresses: Readonly<Record<4 | 6, Address>>;
}

/** The settings of Services in a daemon's configuration; the daemon's own defaults apply to absent ones. */
export interface ServicedNodeOptions {
  readonly rules?: Partial<ServiceRules>;
  readonly nodePortAddresses?: NodePortAddresses;
  readonly refuseExternalIps?: boolean;
  /** Whether Services leave ports to those that had them before. */
  readonly isYielding?: boolean;
  /** The sockets that no Service may claim, and which of the two layers enforce it; by default nothing is protected. */
  readonly protection?: ConfiguredSockets & { readonly isRefused: boolean; readonly isKept: boolean };
}

/** A node whose tables are the daemon's, with Services from texts, and which applies changes at once. */
export class ServicedNode implements Disposable {
  readonly wired: WiredNode;
  readonly #lab: Lab;
  readonly #podCidrs: readonly Cidr[];
  readonly #kernel: NftablesSocket;
  readonly #records: AttachmentRecord[] = [];
  #objects: ReadonlyMap<string, ClusterObject> = new Map();
  #ruleset: Ruleset;
  #component: InTurn;
  #protection: ServicedNodeOptions["protection"];
  #yielded: YieldedFrontends | undefined;
  /** The clock of Services, which only need a further turn. */
  readonly #clock = new FakeClock();

  constructor(lab: Lab, wired: WiredNode, podCidrs: readonly Cidr[], options: ServicedNodeOptions = {}) {
    this.#lab = lab;
    this.wired = wired;
    this.#podCidrs = podCidrs;
    this.#kernel = wired.node.inside(() => new NftablesSocket(lab.calls));
    this.#ruleset = this.#newRuleset(options);
    this.#component = this.#newProxy(options);
    this.#begin();
  }

  /** Behaves as a new daemon with another configuration: it takes over the tables, and their content stays. */
  restart(options: ServicedNodeOptions): void {
    this.#ruleset.stop();
    this.#ruleset = this.#newRuleset(options);
    this.#component = this.#newProxy(options);
    for (const record of this.#records) this.#claim(record);
    const objects = [...this.#objects.values()];
    this.#component.apply(objects.map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
    this.#begin();
  }

  /** Attaches a pod and registers it with the node. */
  pod(name: string): ServicedPod {
    const namespace = this.#lab.pod(name);
    const outcome = add(this.wired, namespace);
    assert.equal(outcome.exitCode, 0, outcome.stdout);
    const { records } = listAttachments(this.wired.node.runDir, "drawbridge", systemFileSystem(this.#lab.calls));
    const record = records.find(({ containerId }) => containerId === namespace.containerId);
    const [v4, v6] = FAMILIES.map(
      (family) => record?.addresses.find(({ address }) => familyOf(address) === family)?.address,
    );
    assert.ok(record !== undefined && v4 !== undefined && v6 !== undefined);
    this.#records.push(record);
    this.#claim(record);
    this.#flush();
    return { namespace, record, addresses: { 4: v4, 6: v6 } };
  }

  /** Publishes a pod's ports of TCP and UDP at a port of the node. */
  publish({ record }: ServicedPod, hostPort: number, containerPort: number): void {
    const portMappings = (["tcp", "udp"] as const).map((protocol) => ({ hostPort, containerPort, protocol }));
    const published = { ...record, portMappings, policyd: { serviceCidrs: [], nonMasqueradeCidrs: [] } };
    this.#records[this.#records.indexOf(record)] = published;
    this.#claim(published);
    this.#flush();
  }

  /** Replaces the cluster's objects by those of a text of manifests. */
  apply(manifests: string): void {
    const after = new Map(readScenario(manifests).map((object) => [`${object.kind} ${object.key}`, object]));
    const gone = [...this.#objects].filter(([id]) => !after.has(id)).map(([, object]) => object);
    // An unchanged object is omitted, as by the daemon's own sources.
    const changed = [...after].flatMap(([id, object]) =>
      isDeepStrictEqual(object, this.#objects.get(id)) ? [] : [object],
    );
    this.#component.apply([
      ...gone.map(({ kind, key }) => ({ type: "delete", kind, key }) as const),
      ...changed.map((object) => ({ type: "set", kind: object.kind, key: object.key, object }) as const),
    ]);
    this.#objects = after;
    this.#flush();
  }

  /** Returns how many packets the rules with this comment have dropped. */
  dropped(reason: string): number {
    return droppedPackets(this.wired.node.exec("nft", ["--terse", "list", "table", "inet", "drawbridge"]), reason);
  }

  /** Returns nft's listing of the inet table's sets and maps, without counters and what packets have written. */
  elements(): string {
    const listing = this.wired.node.exec("nft", ["list", "table", "inet", "drawbridge"]);
    const sets = listing.slice(0, listing.indexOf("\tchain "));
    return withoutDynamicSets(sets).replaceAll(/ counter packets \d+ bytes \d+/g, "");
  }

  #newRuleset({ rules }: ServicedNodeOptions): Ruleset {
    const tables = nodeTables({ ...NODE_CONFIGURATION, services: { ...SERVICE_RULES, ...rules } }).map(withVersion);
    return rulesetOver(this.#kernel, tables, { clock: realClock });
  }

  #newProxy(options: ServicedNodeOptions): InTurn {
    const { nodePortAddresses = [], refuseExternalIps = false, isYielding = false, protection } = options;
    this.#protection = protection;
    this.#yielded = isYielding ? new YieldedFrontends(this.#yieldedParts()) : undefined;
    const judge = new NodeJudge({ nodeName: this.wired.node.name, ownCidrs: this.#podCidrs });
    const index = protection?.isRefused ? new ProtectedSocketIndex(protection, judge) : undefined;
    const nodeName = this.wired.node.name;
    const ofNodes = { nodeName, isTunnel: false, nodePortAddresses, judge };
    const nodes = new NodeAddressSets({ ruleset: this.#ruleset, ...ofNodes });
    const proxy = new ServiceProxy({
      nodeName,
      ruleset: this.#ruleset,
      clock: this.#clock,
      nodePortAddresses,
      refuseExternalIps,
      ...(index === undefined ? {} : { protection: index }),
      ...(this.#yielded === undefined ? {} : { yielded: this.#yielded }),
    });
    return inTurn(judge, ...(index === undefined ? [] : [index]), nodes, proxy);
  }

  #yieldedParts(): YieldedParts {
    const attachments = { values: () => this.#records.values() };
    const { node, inForce } = yieldedParts({
      syscalls: this.#lab.calls,
      programSockets: () => kernelSockets(this.#lab.calls),
      kernel: this.#kernel,
      attachments,
    });
    return { node: () => this.wired.node.inside(node), inForce };
  }

  #claim(record: AttachmentRecord): void {
    const { containerId } = record;
    const chains = attachmentHooks(record);
    this.#ruleset.provide(`attachment ${containerId}`, { table: INET_TABLE, sets: [], chains });
    this.#ruleset.claim(`attachment ${containerId}`, [...attachmentElements(record), ...serviceElements(record)]);
  }

  #begin(): void {
    const kept = this.#protection?.isKept ? this.#protection.sockets : [];
    this.#ruleset.provide("kept", { table: INET_TABLE, sets: [], chains: kept.length > 0 ? keptChains : [] });
    this.#ruleset.claim("kept", kept.map(keptElement));
    this.#ruleset.start();
    this.#yielded?.synced();
    this.#flush();
  }

  #flush(): void {
    assert.ok(this.#ruleset.flush(), this.#ruleset.status().lastError);
    this.#clock.pass(0);
    assert.ok(this.#ruleset.flush(), this.#ruleset.status().lastError);
  }

  [Symbol.dispose](): void {
    this.#ruleset.stop();
    this.#kernel.close();
  }
}

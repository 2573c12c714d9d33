import assert from "node:assert/strict";
import type { AttachmentRecord } from "../../../ipam/attachment.ts";
import { listAttachments } from "../../../ipam/attachment.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import type { Address } from "../../../kernel/ip/address.ts";
import { familyOf } from "../../../kernel/ip/address.ts";
import type { Table } from "../../../kernel/nftables/object.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { realClock } from "../../../policyd/clock.ts";
import { Ruleset } from "../../../policyd/dataplane/ruleset.ts";
import { withVersion } from "../../../policyd/dataplane/schema.ts";
import { recordingLogger } from "../../../policyd/log/recording_logger.ts";
import { attachmentElements } from "../../../policyd/node/attachment_elements.ts";
import { nodeTables } from "../../../policyd/node/tables.ts";
import { compileService } from "../../../policyd/services/compile/compile_service.ts";
import {
  localPodElements,
  nodePortElements,
  podRangeElements,
} from "../../../policyd/services/compile/node_elements.ts";
import { services } from "../../../policyd/services/compile/services_part.ts";
import { add } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { WiredNode } from "../../lab/topology.ts";
import { NODE_CONFIGURATION } from "../guard/guarded_node.ts";
import { indexed, readScenario, SERVICE_RULES } from "./scenario.ts";

/** A pod as the plugin wires it. */
export interface ServicedPod {
  readonly namespace: LabPod;
  readonly record: AttachmentRecord;
  readonly addresses: Readonly<Record<4 | 6, Address>>;
}

/** The node's tables with Services in them, without elements. */
export function servicedTables(): readonly Table[] {
  const part = services(SERVICE_RULES);
  return nodeTables(NODE_CONFIGURATION).map((table) =>
    table.family === "inet"
      ? { ...table, sets: [...table.sets, ...part.sets], chains: [...table.chains, ...part.chains] }
      : table,
  );
}

/** A node whose tables are the daemon's, with Services compiled from texts. */
export class ServicedNode implements Disposable {
  readonly wired: WiredNode;
  readonly #lab: Lab;
  readonly #kernel: NftablesSocket;
  readonly #ruleset: Ruleset;
  #owners: ReadonlySet<string> = new Set();

  constructor(lab: Lab, wired: WiredNode, podCidrs: WiredNode["podCidrs"][number][]) {
    this.#lab = lab;
    this.wired = wired;
    this.#kernel = wired.node.inside(() => new NftablesSocket(lab.calls));
    this.#ruleset = new Ruleset({
      kernel: this.#kernel,
      clock: realClock,
      logger: recordingLogger(),
      tables: servicedTables().map(withVersion),
      minSyncPeriod: 0,
      syncPeriod: 3_600_000,
    });
    this.#ruleset.claim("pod ranges", podRangeElements(podCidrs));
    this.#ruleset.claim("node ports", nodePortElements([], []));
    this.#ruleset.start();
    this.#flush();
  }

  /** Wires a pod and lets the node know it. */
  pod(name: string): ServicedPod {
    const namespace = this.#lab.pod(name);
    const outcome = add(this.wired, namespace);
    assert.equal(outcome.exitCode, 0, outcome.stdout);
    const { records } = listAttachments(this.wired.node.runDir, "drawbridge", systemFileSystem(this.#lab.calls));
    const record = records.find(({ containerId }) => containerId === namespace.containerId);
    const [v4, v6] = ([4, 6] as const).map(
      (family) => record?.addresses.find(({ address }) => familyOf(address) === family)?.address,
    );
    assert.ok(record !== undefined && v4 !== undefined && v6 !== undefined);
    this.#ruleset.claim(`attachment ${name}`, attachmentElements(record));
    this.#ruleset.claim(`local pod ${name}`, localPodElements([v4, v6]));
    this.#flush();
    return { namespace, record, addresses: { 4: v4, 6: v6 } };
  }

  /** Makes the node's Services those of a text of manifests, and no others. */
  apply(manifests: string): void {
    const { index, context } = indexed(readScenario(manifests), this.wired.node.name);
    const owners = new Set<string>();
    for (const object of readScenario(manifests)) {
      if (object.kind !== "Service") continue;
      const owner = `Service ${object.key}`;
      owners.add(owner);
      this.#ruleset.claim(owner, compileService(object, index.slicesOf(object.key), context).claims);
    }
    for (const owner of this.#owners) if (!owners.has(owner)) this.#ruleset.claim(owner, []);
    this.#owners = owners;
    this.#flush();
  }

  /** How many packets the rules with this comment have dropped. */
  dropped(reason: string): number {
    const text = this.wired.node.exec("nft", ["list", "table", "inet", "drawbridge"]);
    const counts = text.matchAll(new RegExp(`packets (\\d+) bytes \\d+ drop comment "${reason}"`, "g"));
    return [...counts].reduce((sum, [, packets]) => sum + Number(packets), 0);
  }

  #flush(): void {
    assert.ok(this.#ruleset.flush(), this.#ruleset.status().lastError);
  }

  [Symbol.dispose](): void {
    this.#ruleset.stop();
    this.#kernel.close();
  }
}

import assert from "node:assert/strict";
import { NodeJudge } from "../../../policyd/objects/nodes/node_judge.ts";
import type { AttachmentRecord } from "../../../cni/attachment/attachment.ts";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import { realClock } from "../../../policyd/lib/clock.ts";
import type { DesiredElement } from "../../../policyd/ruleset/desired/desired_element.ts";
import { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";
import { recordingLogger } from "../../../policyd/log/recording_logger.ts";
import { attachmentElements } from "../../../policyd/node/attachment_elements.ts";
import { nodeTables } from "../../../policyd/node/tables/tables.ts";
import type { ServiceWorld } from "../../../policyd/semantics/services/world.ts";
import { serviceElements, ServiceProxy } from "../../../policyd/services/service_proxy.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { NODE_CONFIGURATION } from "../guard/guarded_node.ts";
import { SERVICE_RULES } from "./scenario.ts";

/** A node with the daemon's tables, into which the compiler loads one random cluster after the other. */
export class PacketNode {
  readonly #node: LabNamespace;
  readonly #kernel: NftablesSocket;
  readonly #ruleset: Ruleset;
  #owners: ReadonlySet<string> = new Set();

  constructor(node: LabNamespace, attachments: readonly AttachmentRecord[], tcpReset: boolean) {
    this.#node = node;
    this.#kernel = node.inside(() => new NftablesSocket(node.calls));
    this.#ruleset = new Ruleset({
      kernel: this.#kernel,
      clock: realClock,
      logger: recordingLogger(),
      tables: nodeTables({ ...NODE_CONFIGURATION, services: { ...SERVICE_RULES, tcpReset } }).map(withVersion),
      minSyncPeriod: 0,
      syncPeriod: 3_600_000,
    });
    for (const record of attachments) {
      this.#ruleset.claim(`attachment ${record.containerId}`, [
        ...attachmentElements(record),
        ...serviceElements(record),
      ]);
    }
    this.#ruleset.start();
  }

  /** Replaces the node's Services by those of a cluster; the difference removes those of the previous cluster. */
  load({ nodeName, services, endpointSlices, nodes, configuration }: ServiceWorld): void {
    const claimed = new Map<string, readonly DesiredElement[]>();
    const component = new ServiceProxy({
      nodeName,
      ruleset: {
        claim: (owner, claims) => void claimed.set(owner, claims),
        provide: (owner, objects) => this.#ruleset.provide(owner, objects),
        follow: () => {},
        isReconciled: false,
      },
      clock: realClock,
      podCidrs: configuration.clusterCidrs,
      judge: new NodeJudge({ nodeName, ownCidrs: configuration.clusterCidrs }),
      nodePortAddresses: configuration.nodePortAddresses,
      refuseExternalIps: configuration.refuseExternalIps,
    });
    const objects = [...services, ...endpointSlices, ...nodes];
    component.apply(objects.map((object) => ({ type: "set", kind: object.kind, key: object.key, object })));
    for (const owner of this.#owners) if (!claimed.has(owner)) this.#ruleset.claim(owner, []);
    for (const [owner, claims] of claimed) this.#ruleset.claim(owner, claims);
    this.#owners = new Set(claimed.keys());
    assert.ok(this.#ruleset.flush(), this.#ruleset.status().lastError);
    // A client's endpoint of an earlier cluster does not exist in this one.
    for (const family of [4, 6]) this.#node.exec("nft", ["flush", "map", "inet", "drawbridge", `client${family}`]);
  }

  /** Returns how many packets the rules with these comments have dropped. */
  dropped(reasons: readonly string[]): number {
    const text = this.#node.exec("nft", ["list", "table", "inet", "drawbridge"]);
    const counts = [...text.matchAll(/packets (\d+) bytes \d+ drop comment "([^"]*)"/g)];
    return counts.filter(([, , reason = ""]) => reasons.includes(reason)).reduce((sum, [, n]) => sum + Number(n), 0);
  }

  close(): void {
    this.#ruleset.stop();
    this.#kernel.close();
  }
}

import assert from "node:assert/strict";
import { type AttachmentRecord, listAttachments } from "../../../../attachment/attachment.ts";
import { systemFileSystem } from "../../../../ipam/file_system.ts";
import { relabelFlows } from "../../../../kernel/conntrack/relabelling.ts";
import { ConntrackSockets } from "../../../../kernel/conntrack/sockets.ts";
import { openConntrackSocket } from "../../../../kernel/conntrack/table.ts";
import { type Address, type Family, familyOf, FAMILIES } from "../../../../kernel/ip/address.ts";
import { rangeOf } from "../../../../kernel/ip/ranges.ts";
import { NftablesSocket } from "../../../../kernel/nftables/socket.ts";
import { localAddresses } from "../../../../cni/node_rules/stale_flows.ts";
import { realClock } from "../../../../policyd/lib/clock.ts";
import type { ClusterObject } from "../../../../objects/model.ts";
import { Ruleset } from "../../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../../policyd/ruleset/schema.ts";
import { recordingLogger } from "../../recording_logger.ts";
import { attachmentElements } from "../../../../policyd/node/attachment_elements.ts";
import { nodeTables } from "../../../../policyd/node/tables/tables.ts";
import { podRangeElement } from "../../../../policyd/node/tables/tunnel_guard.ts";
import { DEFAULT_POLICY_OPTIONS, type PolicyOptions } from "../../../../policyd/policies/compile/options.ts";
import { policyTable } from "../../../../policyd/policies/compile/policy_table.ts";
import { Cuts } from "../../../../policyd/policies/cuts/cuts.ts";
import { kernelOpening } from "../../../../policyd/policies/cuts/startup_rules.ts";
import { PolicyEnforcement } from "../../../../policyd/policies/policy_enforcement.ts";
import { NO_RETAINED_FILES } from "../../../../policyd/policies/retained/retained_files.ts";
import { ServiceProxy } from "../../../../policyd/services/service_proxy.ts";
import { serviceElements } from "../../../../policyd/services/elements/node_elements.ts";
import { add, type Configuration } from "../../../lab/cni.ts";
import type { Lab, LabPod } from "../../../lab/lab.ts";
import type { WiredNode } from "../../../lab/topology.ts";
import { NODE_CONFIGURATION } from "../../guard/guarded_node.ts";
import { readScenario, SERVICE_RULES } from "../../services/scenario.ts";

/** A pod as the plugin wires it. */
export interface PolicedPod {
  readonly namespace: LabPod;
  readonly addresses: Readonly<Record<Family, Address>>;
}

interface Running {
  readonly ruleset: Ruleset;
  readonly services: ServiceProxy;
  readonly policies: PolicyEnforcement | undefined;
  readonly cuts: Cuts | undefined;
}

/** A node whose tables are the daemon's, in this process: with Services and, where requested, policies and cuts. */
export class PolicedNode implements Disposable {
  readonly wired: WiredNode;
  readonly #lab: Lab;
  readonly #kernel: NftablesSocket;
  readonly #records: AttachmentRecord[] = [];
  #objects: ReadonlyMap<string, ClusterObject> = new Map();
  #running: Running | undefined;

  constructor(lab: Lab, wired: WiredNode) {
    this.#lab = lab;
    this.wired = wired;
    this.#kernel = wired.node.inside(() => new NftablesSocket(lab.calls));
  }

  /** Attaches a pod, before the start. @param overrides of the plugin's configuration */
  pod(name: string, overrides: Configuration = {}): PolicedPod {
    const namespace = this.#lab.pod(name);
    const outcome = add(this.wired, namespace, overrides);
    assert.equal(outcome.exitCode, 0, outcome.stdout);
    const { records } = listAttachments(this.wired.node.runDir, "drawbridge", systemFileSystem(this.#lab.calls));
    const record = records.find(({ containerId }) => containerId === namespace.containerId);
    const [v4, v6] = FAMILIES.map(
      (family) => record?.addresses.find(({ address }) => familyOf(address) === family)?.address,
    );
    assert.ok(record !== undefined && v4 !== undefined && v6 !== undefined);
    this.#records.push(record);
    return { namespace, addresses: { 4: v4, 6: v6 } };
  }

  /**
   * Does the steps of a daemon's start, in their order.
   *
   * @param policies undefined for a daemon that does not support policies
   * @param beforeRules is called when everything is prepared and nothing is written
   */
  async start(
    manifests: string,
    policies: Partial<PolicyOptions> | undefined,
    beforeRules: () => Promise<void> = async () => {},
  ): Promise<void> {
    this.#running?.ruleset.stop();
    this.#running?.cuts?.stop();
    const options = { ...DEFAULT_POLICY_OPTIONS, bridge: NODE_CONFIGURATION.bridge, ...policies };
    const tables = [
      ...nodeTables({ ...NODE_CONFIGURATION, services: SERVICE_RULES }),
      ...(policies === undefined ? [] : [policyTable(options)]),
    ].map(withVersion);
    const ruleset = new Ruleset({
      kernel: this.#kernel,
      clock: realClock,
      logger: recordingLogger(),
      tables,
      minSyncPeriod: 0,
      syncPeriod: 3_600_000,
    });
    const { name } = this.wired.node;
    ruleset.claim("pods", this.wired.podCidrs.map(rangeOf).map(podRangeElement));
    const services = new ServiceProxy({
      nodeName: name,
      ruleset,
      clock: realClock,
      nodePortAddresses: [],
      refuseExternalIps: false,
    });
    this.#running = { ruleset, services, ...(policies === undefined ? NO_POLICIES : this.#policies(ruleset, options)) };
    this.#objects = new Map();
    this.apply(manifests);
    for (const record of this.#records) {
      const elements = [...attachmentElements(record), ...serviceElements(record)];
      ruleset.claim(`attachment ${record.containerId}`, elements);
      this.#running.policies?.attached(record, "unknown");
    }
    this.#running.policies?.synced();
    await this.#running.policies?.prepared();
    await beforeRules();
    ruleset.start();
    assert.ok(ruleset.flush(), ruleset.status().lastError);
  }

  /** Replaces the cluster's objects by those of a text of manifests. */
  apply(manifests: string): void {
    this.tell(readScenario(manifests));
  }

  /** Replaces the cluster's objects. */
  tell(objects: readonly ClusterObject[]): void {
    const after = new Map(objects.map((object) => [`${object.kind} ${object.key}`, object]));
    const changes = [
      ...[...this.#objects]
        .filter(([id]) => !after.has(id))
        .map(([, { kind, key }]) => ({ type: "delete", kind, key }) as const),
      ...[...after.values()].map((object) => ({ type: "set", kind: object.kind, key: object.key, object }) as const),
    ];
    this.#objects = after;
    this.#running?.services.apply(changes);
    this.#running?.policies?.apply(changes);
  }

  get cuts(): Cuts {
    return this.#running?.cuts ?? assert.fail("without policies");
  }

  [Symbol.dispose](): void {
    this.#running?.ruleset.stop();
    this.#running?.cuts?.stop();
    this.#kernel.close();
  }

  #policies(ruleset: Ruleset, options: PolicyOptions): { readonly policies: PolicyEnforcement; readonly cuts: Cuts } {
    const { calls } = this.#lab;
    const { node } = this.wired;
    const nodeAddresses = (): ReadonlySet<Address> => node.inside(() => localAddresses(calls));
    const sockets = new ConntrackSockets(calls, () => node.inside(() => openConntrackSocket(calls)));
    const policies = new PolicyEnforcement({
      nodeName: "node1",
      ruleset,
      clock: realClock,
      options,
      retained: NO_RETAINED_FILES,
    });
    const cuts = new Cuts({
      flows: {
        relabel: (asked, relabelling) => relabelFlows(sockets, asked, relabelling),
        nodeAddresses,
      },
      evaluatorOf: (own) => policies.flowEvaluator(own),
      isSettled: () => policies.isSettled,
      ruleset,
      opening: kernelOpening({
        kernel: this.#kernel,
        commit: (changes) => this.#kernel.commit(changes),
        policyTable: policyTable(options),
        bridge: options.bridge,
      }),
      clock: realClock,
      logger: recordingLogger(),
      policyReset: options.policyReset,
    });
    policies.follow(cuts);
    return { policies, cuts };
  }
}

const NO_POLICIES = { policies: undefined, cuts: undefined };

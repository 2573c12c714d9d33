import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import { rangeText } from "../cluster/joined_networks.ts";
import type { NodeJudge, VerdictReader } from "../cluster/node_judge.ts";
import { openNodeJudge } from "../cluster/node_judge.ts";
import type { Dataplane } from "../dataplane.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Claim } from "../dataplane/claim.ts";
import type { Ruleset } from "../dataplane/ruleset.ts";
import { NETWORK_NAME } from "../installation/network_configuration.ts";
import type { ObjectChange } from "../source/object_source.ts";
import { keptRangeElement, leavingPodElements, readyElements } from "./cluster_masquerade.ts";
import { KeptNetworks } from "./kept_networks.ts";

const OWNER = "cluster networks";

export interface MasqueradeDataplaneParts {
  /** Whose tables have the part `clusterMasquerade()`. Whoever owns it starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim">;
  readonly nodeName: string;
  /** This node's pod CIDRs where its Node object has none. */
  readonly podCidrs: readonly Cidr[];
  /** Who judges the Nodes. */
  readonly judge: NodeJudge;
  /** Where pods keep their address beside what the Node objects name. */
  readonly further: readonly Cidr[];
}

/**
 * Where pods keep their own address, as the Node objects come and go (POD-19). Of a node's addresses the internal ones count:
 * an external one is often translated by a gateway, which knows the nodes alone.
 */
export class MasqueradeDataplane implements Dataplane {
  readonly #parts: MasqueradeDataplaneParts;
  readonly #readVerdict: VerdictReader;
  readonly #kept: KeptNetworks;

  constructor(parts: MasqueradeDataplaneParts) {
    this.#parts = parts;
    this.#readVerdict = parts.judge.reader();
    this.#kept = new KeptNetworks(parts.further);
    parts.ruleset.claim(OWNER, readyElements(), "urgent");
    this.#claim();
  }

  apply(changes: readonly ObjectChange[]): void {
    const { judge } = this.#parts;
    judge.apply(changes);
    const names = this.#readVerdict();
    for (const name of names) this.#kept.setNode(name, judge.judged.nodes.get(name));
    if (names.size > 0) this.#claim();
  }

  synced(): void {
    this.#parts.judge.synced();
  }

  /**
   * What of a pod leaves with the node's address: all of one in the network that is installed (NETWORK_NAME), and what is in this
   * node's pod CIDRs, as known when it is attached or the daemon starts. Further networks of a pod are none of the cluster's.
   */
  elementsOf({ network, addresses }: Pick<AttachmentRecord, "network" | "addresses">): readonly Claim[] {
    const { podCidrs, nodeName, judge } = this.#parts;
    const own = [...podCidrs, ...(judge.judged.nodes.get(nodeName)?.podCidrs ?? [])];
    const leaving = addresses.filter(
      ({ address }) => network === NETWORK_NAME || own.some((cidr) => cidrContains(cidr, address)),
    );
    return leavingPodElements(leaving.map(({ address }) => address));
  }

  /** What it needs of a pod is claimed with what binds it to its port (leavingPodElements). */
  async register(): Promise<void> {}

  async unregister(): Promise<void> {}

  problems(): readonly string[] {
    return [];
  }

  async stop(): Promise<void> {}

  /** At once: the first packets to a new node's pods should not be the ones that are hidden. */
  #claim(): void {
    const { ruleset } = this.#parts;
    const { removed, added } = this.#kept.difference();
    for (const range of removed) ruleset.claim(`${OWNER} ${rangeText(range)}`, [], "urgent");
    for (const range of added) ruleset.claim(`${OWNER} ${rangeText(range)}`, [keptRangeElement(range)], "urgent");
  }
}

/** Who keeps the networks of the rules, as the configuration says. */
export function masqueradeDataplane(
  configuration: Configuration,
  ruleset: Pick<Ruleset, "claim">,
  judge: NodeJudge = openNodeJudge(configuration),
): MasqueradeDataplane {
  const { nodeName, podCIDRs, nonMasqueradeCIDRs } = configuration;
  const further = [...podCIDRs, ...nonMasqueradeCIDRs];
  return new MasqueradeDataplane({ ruleset, nodeName, podCidrs: podCIDRs, judge, further });
}

/** What the configuration makes of pods that leave the cluster: who follows the nodes, and what each attachment adds. */
export function openMasquerade(
  configuration: Configuration,
  ruleset: Pick<Ruleset, "claim">,
  judge: NodeJudge,
): {
  readonly dataplanes: readonly Dataplane[];
  readonly elementsOf: (attachment: AttachmentRecord) => readonly Claim[];
} {
  if (!configuration.masquerade) return { dataplanes: [], elementsOf: () => [] };
  const dataplane = masqueradeDataplane(configuration, ruleset, judge);
  return { dataplanes: [dataplane], elementsOf: (attachment) => dataplane.elementsOf(attachment) };
}

import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import { NodeJudge } from "../cluster/node_judge.ts";
import type { Dataplane } from "../dataplane.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Claim } from "../dataplane/claim.ts";
import type { Ruleset } from "../dataplane/ruleset.ts";
import { NETWORK_NAME } from "../installation/network_configuration.ts";
import type { ObjectChange } from "../source/object_source.ts";
import { keptNetworkElements, leavingPodElements } from "./cluster_masquerade.ts";

const OWNER = "cluster networks";

export interface MasqueradeDataplaneParts {
  /** Whose tables have the part `clusterMasquerade()`. Whoever owns it starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim">;
  readonly nodeName: string;
  /** This node's pod CIDRs where its Node object has none. */
  readonly podCidrs: readonly Cidr[];
  /** Ranges of Services beside those of ServiceCIDR objects. */
  readonly serviceCidrs: readonly Cidr[];
  /** Where pods keep their address beside what the Node objects name. */
  readonly further: readonly Cidr[];
}

/**
 * Where pods keep their own address, as the Node objects come and go (POD-19). Of a node's addresses the internal ones count:
 * an external one is often translated by a gateway, which knows the nodes alone.
 */
export class MasqueradeDataplane implements Dataplane {
  readonly #parts: MasqueradeDataplaneParts;
  readonly #judge: NodeJudge;

  constructor(parts: MasqueradeDataplaneParts) {
    this.#parts = parts;
    const { nodeName, podCidrs, serviceCidrs } = parts;
    this.#judge = new NodeJudge({ nodeName, ownCidrs: podCidrs, serviceCidrs });
    this.#claim();
  }

  apply(changes: readonly ObjectChange[]): void {
    if (this.#judge.apply(changes)) this.#claim();
  }

  synced(): void {
    this.#judge.synced();
  }

  /**
   * What of a pod leaves with the node's address: all of one in the network that is installed (NETWORK_NAME), and what is in this
   * node's pod CIDRs, as known when it is attached or the daemon starts. Further networks of a pod are none of the cluster's.
   */
  elementsOf({ network, addresses }: Pick<AttachmentRecord, "network" | "addresses">): readonly Claim[] {
    const { podCidrs, nodeName } = this.#parts;
    const own = [...podCidrs, ...(this.#judge.judged.nodes.get(nodeName)?.podCidrs ?? [])];
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
    const nodes = [...this.#judge.judged.nodes.values()];
    const elements = keptNetworkElements({
      podCidrs: nodes.flatMap(({ podCidrs }) => podCidrs),
      nodeAddresses: nodes.flatMap(({ addresses }) => addresses),
      further: this.#parts.further,
    });
    this.#parts.ruleset.claim(OWNER, elements, true);
  }
}

/** Who keeps the networks of the rules, as the configuration says. */
export function masqueradeDataplane(
  { nodeName, podCIDRs, serviceCIDRs, nonMasqueradeCIDRs }: Configuration,
  ruleset: Pick<Ruleset, "claim">,
): MasqueradeDataplane {
  const further = [...podCIDRs, ...nonMasqueradeCIDRs];
  return new MasqueradeDataplane({ ruleset, nodeName, podCidrs: podCIDRs, serviceCidrs: serviceCIDRs, further });
}

/** What the configuration makes of pods that leave the cluster: who follows the nodes, and what each attachment adds. */
export function openMasquerade(
  configuration: Configuration,
  ruleset: Pick<Ruleset, "claim">,
): {
  readonly dataplanes: readonly Dataplane[];
  readonly elementsOf: (attachment: AttachmentRecord) => readonly Claim[];
} {
  if (!configuration.masquerade) return { dataplanes: [], elementsOf: () => [] };
  const dataplane = masqueradeDataplane(configuration, ruleset);
  return { dataplanes: [dataplane], elementsOf: (attachment) => dataplane.elementsOf(attachment) };
}

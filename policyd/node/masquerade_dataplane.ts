import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import { formatCidr } from "../../kernel/ip/cidr.ts";
import type { Node } from "../cluster/model.ts";
import type { Dataplane } from "../dataplane.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Claim } from "../dataplane/claim.ts";
import type { Ruleset } from "../dataplane/ruleset.ts";
import type { ObjectChange } from "../source/object_source.ts";
import { keptNetworkElements, leavingPodElements } from "./cluster_masquerade.ts";

const OWNER = "cluster networks";

export interface MasqueradeDataplaneParts {
  /** Whose tables have the part `clusterMasquerade()`. Whoever owns it starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim">;
  /** Where pods keep their address beside what the Node objects name. */
  readonly further: readonly Cidr[];
}

/**
 * Where pods keep their own address, as the Node objects come and go (POD-19). Of a node's addresses the internal ones count:
 * an external one is often translated by a gateway, which knows the nodes alone.
 */
export class MasqueradeDataplane implements Dataplane {
  readonly #parts: MasqueradeDataplaneParts;
  readonly #nodes = new Map<string, Node>();

  constructor(parts: MasqueradeDataplaneParts) {
    this.#parts = parts;
    this.#claim();
  }

  apply(changes: readonly ObjectChange[]): void {
    let hasChanged = false;
    for (const change of changes) {
      if (change.kind !== "Node") continue;
      const before = textOf(this.#nodes.get(change.key));
      if (change.type === "set" && change.object.kind === "Node") this.#nodes.set(change.key, change.object);
      else this.#nodes.delete(change.key);
      hasChanged ||= before !== textOf(this.#nodes.get(change.key));
    }
    if (hasChanged) this.#claim();
  }

  synced(): void {}

  /** What it needs of a pod is claimed with what binds it to its port (leavingPodElements). */
  async register(): Promise<void> {}

  async unregister(): Promise<void> {}

  problems(): readonly string[] {
    return [];
  }

  async stop(): Promise<void> {}

  /** At once: the first packets to a new node's pods should not be the ones that are hidden. */
  #claim(): void {
    const nodes = [...this.#nodes.values()];
    const elements = keptNetworkElements({
      podCidrs: nodes.flatMap(({ podCidrs }) => podCidrs),
      nodeAddresses: nodes.flatMap(internalAddresses),
      further: this.#parts.further,
    });
    this.#parts.ruleset.claim(OWNER, elements, true);
  }
}

/** What the configuration makes of pods that leave the cluster: who follows the nodes, and what each attachment adds. */
export function openMasquerade(
  { masquerade, podCIDRs, nonMasqueradeCIDRs }: Configuration,
  ruleset: Pick<Ruleset, "claim">,
): {
  readonly dataplanes: readonly Dataplane[];
  readonly elementsOf: (attachment: AttachmentRecord) => readonly Claim[];
} {
  if (!masquerade) return { dataplanes: [], elementsOf: () => [] };
  return {
    dataplanes: [new MasqueradeDataplane({ ruleset, further: [...podCIDRs, ...nonMasqueradeCIDRs] })],
    elementsOf: ({ addresses }) => leavingPodElements(addresses.map(({ address }) => address)),
  };
}

function internalAddresses({ addresses }: Node): readonly Node["addresses"][number]["address"][] {
  return addresses.flatMap(({ type, address }) => (type === "InternalIP" ? [address] : []));
}

/** All that counts of a node: it changes every few seconds in other ways. */
function textOf(node: Node | undefined): string {
  return node === undefined
    ? ""
    : [...node.podCidrs.map(formatCidr), ...internalAddresses(node).map(formatAddress)].join();
}

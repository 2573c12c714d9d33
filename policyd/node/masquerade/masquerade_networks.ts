import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { type Cidr, cidrContains, cidrFamily, hostCidr } from "../../../kernel/ip/cidr.ts";
import { JoinedNetworks, rangeText } from "../../../objects/nodes/joined_networks.ts";
import type { NodeJudge, VerdictReader } from "../../../objects/nodes/node_judge.ts";
import type { ObjectConsumer } from "../../component.ts";
import type { Machine } from "../../machine.ts";
import type { Configuration } from "../../configuration/configuration.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import { NETWORK_NAME } from "../../installation/configuration_list.ts";
import { keptRangeElement, leavingPodElements, readyElements } from "./cluster_masquerade.ts";
import { FAMILIES, type Family } from "../../../kernel/ip/address.ts";
import { bothFamilies, EVERY_ADDRESS, LINK_LOCAL, MULTICAST } from "../../../kernel/ip/special.ts";

const OWNER = "cluster networks";

export interface MasqueradeNetworksParts extends Pick<Machine, "nodeName" | "judge"> {
  /** The ruleset whose tables have the part `clusterMasquerade()`. Its owner starts and stops it. */
  readonly ruleset: Pick<Ruleset, "claim">;
  /** This node's pod CIDRs, used in addition to those of its Node object. */
  readonly podCidrs: readonly Cidr[];
  /** Networks where pods keep their address, in addition to those of the Node objects. */
  readonly further: readonly Cidr[];
}

/**
 * Claims the networks where pods keep their own address, as Node objects change (POD-19): the cluster, link-local
 * addresses and multicast. In a family without a known pod network pods keep it everywhere. Only internal addresses of a
 * node count: an external one is often translated by a gateway, which knows a route only to nodes.
 */
export class MasqueradeNetworks implements ObjectConsumer {
  readonly #parts: MasqueradeNetworksParts;
  readonly #readVerdict: VerdictReader;
  readonly #kept = new JoinedNetworks();
  /** The Nodes that have changed since the last claim. */
  readonly #changed = new Set<string>();

  constructor(parts: MasqueradeNetworksParts) {
    this.#parts = parts;
    this.#readVerdict = parts.judge.reader();
    this.#kept.set("configuration", [...parts.further, ...NEVER_HIDDEN]);
    parts.ruleset.claim(OWNER, readyElements(), "urgent");
    this.#claim();
  }

  apply(): void {
    const { judge } = this.#parts;
    for (const name of this.#readVerdict()) this.#changed.add(name);
    // Without any Node the cluster's networks are unknown, and stay as they were.
    if (this.#changed.size === 0 || judge.judged.nodes.size === 0) return;
    for (const name of this.#changed) {
      const { podCidrs = [], addresses = [] } = judge.judged.nodes.get(name) ?? {};
      this.#kept.set(`node ${name}`, [...podCidrs, ...addresses.map((address) => hostCidr(address))]);
    }
    this.#changed.clear();
    this.#claim();
  }

  /**
   * Returns the elements that give a pod's packets the node's address: for all addresses in the installed network
   * (NETWORK_NAME), and for those in this node's pod CIDRs as known when the pod is attached or the daemon starts. A
   * pod's further networks do not belong to the cluster.
   */
  elementsOf({ network, addresses }: Pick<AttachmentRecord, "network" | "addresses">): readonly DesiredElement[] {
    const { podCidrs, nodeName, judge } = this.#parts;
    const own = [...podCidrs, ...(judge.judged.nodes.get(nodeName)?.podCidrs ?? [])];
    const leaving = addresses.filter(
      ({ address }) => network === NETWORK_NAME || own.some((cidr) => cidrContains(cidr, address)),
    );
    return leavingPodElements(leaving.map(({ address }) => address));
  }

  /** Claims changed ranges as urgent, so that the first packets to a new node's pods keep their source address. */
  #claim(): void {
    const { ruleset } = this.#parts;
    for (const family of FAMILIES) {
      this.#kept.set(`everything ${family}`, this.#hasPodNetwork(family) ? [] : [EVERY_ADDRESS[family]]);
    }
    const { removed, added } = this.#kept.difference();
    for (const range of removed) ruleset.claim(`${OWNER} ${rangeText(range)}`, [], "urgent");
    for (const range of added) ruleset.claim(`${OWNER} ${rangeText(range)}`, [keptRangeElement(range)], "urgent");
  }

  /** Whether a network of pods is known: without one, nothing says what is outside of the cluster. */
  #hasPodNetwork(family: Family): boolean {
    const { further, judge } = this.#parts;
    const isOne = (cidr: Cidr): boolean => cidrFamily(cidr) === family;
    return further.some(isOne) || [...judge.judged.nodes.values()].some(({ podCidrs }) => podCidrs.some(isOne));
  }
}

/**
 * Returns the component that follows the Nodes, and a function for the elements of each attachment; without masquerade
 * there are neither.
 */
export function openMasquerade(
  { nodeName, podCIDRs, nonMasqueradeCIDRs, masquerade }: Configuration,
  ruleset: Pick<Ruleset, "claim">,
  judge: NodeJudge,
): {
  readonly components: readonly MasqueradeNetworks[];
  readonly elementsOf: (attachment: AttachmentRecord) => readonly DesiredElement[];
} {
  if (!masquerade) return { components: [], elementsOf: () => [] };
  const further = [...podCIDRs, ...nonMasqueradeCIDRs];
  const component = new MasqueradeNetworks({ ruleset, nodeName, podCidrs: podCIDRs, judge, further });
  return { components: [component], elementsOf: (attachment) => component.elementsOf(attachment) };
}

/** Link-local addresses, which are on the link itself, and multicast. */
const NEVER_HIDDEN = bothFamilies(LINK_LOCAL, MULTICAST);

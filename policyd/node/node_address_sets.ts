import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { NodeJudge, VerdictReader } from "../../objects/nodes/node_judge.ts";
import type { Address } from "../../kernel/ip/address.ts";
import type { Node, ObjectChange } from "../../objects/model.ts";
import { addressesOfNode } from "../../objects/nodes/node_addresses.ts";
import { JoinedNetworks, rangeText } from "../../objects/nodes/joined_networks.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { ObjectConsumer } from "../component.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import { isReserved } from "../../objects/nodes/reserved_addresses.ts";
import { otherNodePorts } from "../services/node_port_addresses.ts";
import { otherNodePortElements } from "../services/elements/node_elements.ts";
import type { NodePortAddresses } from "../services/rules/context.ts";
import { hasTunnel, podRangeElement, type TunnelEnd, tunnelEndElements } from "./tables/tunnel_guard.ts";

export interface NodeAddressSetsParts extends Pick<Machine, "nodeName" | "judge"> {
  /** The ruleset whose tables have the part `tunnelNodes()`. */
  readonly ruleset: Pick<Ruleset, "claim">;
  /** Whether the tables have the part `tunnelGuard()`, too. */
  readonly isTunnel: boolean;
  /** The addresses that serve node ports; undefined where the tables have no Services. */
  readonly nodePortAddresses: NodePortAddresses | undefined;
}

/**
 * Claims what Nodes imply, as they change: the addresses of nodes (GUARD-09, GUARD-17, GUARD-19), the networks of pods
 * (SVC-13), and the addresses at which other nodes serve node ports (NODE-12). The ruleset's owner starts and stops it.
 */
export class NodeAddressSets implements ObjectConsumer {
  readonly #parts: NodeAddressSetsParts;
  readonly #nodes = new Map<string, Node>();
  readonly #readVerdict: VerdictReader;
  readonly #podNetworks = new JoinedNetworks();
  readonly #serving = new Map<string, readonly Address[]>();
  #servingElsewhere: ReadonlySet<Address> | undefined;

  constructor(parts: NodeAddressSetsParts) {
    this.#parts = parts;
    this.#readVerdict = parts.judge.reader();
    this.#podNetworks.set(parts.nodeName, parts.judge.ownCidrs);
    this.apply([]);
  }

  /** Claims as urgent: until then packets of a new node are dropped, and its pods see the address of a node as a client's. */
  apply(changes: readonly ObjectChange[]): void {
    const { judge, ruleset, nodeName } = this.#parts;
    const judged = this.#readVerdict();
    // Setting networks that are set already costs time that grows with the number of Nodes.
    for (const name of judged) {
      const ofNode = name === nodeName ? judge.ownCidrs : judge.judged.nodes.get(name)?.podCidrs;
      this.#podNetworks.set(name, ofNode ?? []);
    }
    const names = new Set(judged);
    for (const change of changes) {
      if (change.kind !== "Node") continue;
      names.add(change.key);
      if (change.type === "set" && change.object.kind === "Node") this.#nodes.set(change.key, change.object);
      else this.#nodes.delete(change.key);
    }
    for (const name of names) this.#claimNode(name);
    const { removed, added } = this.#podNetworks.difference();
    for (const range of removed) ruleset.claim(`pod range ${rangeText(range)}`, [], "urgent");
    for (const range of added) ruleset.claim(`pod range ${rangeText(range)}`, [podRangeElement(range)], "urgent");
  }

  /** Returns the addresses at which other nodes serve node ports, which this node translates for its pods. */
  servingElsewhere(): ReadonlySet<Address> {
    return (this.#servingElsewhere ??= new Set([...this.#serving.values()].flat()));
  }

  #claimNode(name: string): void {
    const { judge, ruleset, nodeName, isTunnel, nodePortAddresses } = this.#parts;
    const podCidrs = judge.judged.nodes.get(name)?.podCidrs ?? [];
    const end = endOf(this.#nodes.get(name)?.addresses ?? [], podCidrs);
    const isOther = name !== nodeName && nodePortAddresses !== undefined;
    const serving = isOther ? otherNodePorts(end, podCidrs, nodePortAddresses) : [];
    this.#servingElsewhere = undefined;
    if (serving.length === 0) this.#serving.delete(name);
    else this.#serving.set(name, serving);
    const claims = [...tunnelEndElements(end, isTunnel), ...otherNodePortElements(serving)];
    ruleset.claim(`tunnel end ${name}`, claims, "urgent");
  }
}

/** Returns the component that fills the sets of `tunnelNodes()`, of `tunnelGuard()` and of Services, as configured. */
export function openNodeAddressSets(
  configuration: Pick<Configuration, "encapsulation" | "nodeName" | "services" | "nodePortAddresses">,
  ruleset: Pick<Ruleset, "claim">,
  judge: NodeJudge,
): NodeAddressSets {
  const { nodeName, services, nodePortAddresses: configured } = configuration;
  const isTunnel = hasTunnel(configuration);
  const nodePortAddresses = services ? configured : undefined;
  return new NodeAddressSets({ ruleset, judge, nodeName, isTunnel, nodePortAddresses });
}

function endOf(addresses: Node["addresses"], podCidrs: readonly Cidr[]): TunnelEnd {
  const of = (kind: Node["addresses"][number]["type"]): readonly Address[] =>
    addresses.flatMap(({ type, address }) => (type === kind && !isReserved(address) ? [address] : []));
  const implied = addressesOfNode({ addresses: [], podCidrs });
  return { internal: of("InternalIP"), external: of("ExternalIP"), implied };
}

import type { Address } from "../../../kernel/ip/address.ts";
import type { Protocol } from "../../../objects/model.ts";
import type { Direction } from "../../../policyd/policies/compile/profile.ts";
import type { Flow } from "../../../objects/semantics/policies/flow.ts";
import type { CompiledCluster, Owner } from "./compiled_cluster.ts";
import { echoProtocol, PolicedNode, type PolicedPacket } from "./policed_node.ts";

/** A flow between two addresses. */
export interface AddressedFlow {
  readonly source: Address;
  readonly destination: Address;
  readonly protocol: Flow["protocol"];
  readonly port: number;
}

/** The outcome for a packet. */
export interface Fate {
  readonly isPassed: boolean;
  /** The directions in which policies in shadow would have dropped it. */
  readonly wouldDrop: ReadonlySet<Direction>;
}

/** The verdicts of all nodes' tables in a cluster on flows, as the interpreter of nftables walks them. */
export class PolicedCluster {
  readonly #cluster: CompiledCluster;
  readonly #nodes = new Map<string | undefined, PolicedNode>();

  constructor(cluster: CompiledCluster) {
    this.#cluster = cluster;
  }

  /** Sends a packet through the tables of both ends' nodes. */
  send(flow: AddressedFlow): Fate {
    const wouldDrop = new Set<Direction>();
    const isPassed = this.#places(flow).every((place) => {
      const policed = this.#node(place);
      policed.forget();
      const { verdict } = policed.send(packetOf(flow));
      for (const direction of policed.shadowed()) wouldDrop.add(direction);
      return verdict === "accept";
    });
    return { isPassed, wouldDrop };
  }

  #places({ source, destination }: AddressedFlow): readonly (string | undefined)[] {
    return [...new Set([source, destination].flatMap((address) => this.#placeOf(address)))];
  }

  #placeOf(address: Address): readonly (string | undefined)[] {
    const owner = this.#cluster.owners.get(address);
    return owner === undefined ? [] : [placeOf(owner)];
  }

  #node(name: string | undefined): PolicedNode {
    const known = this.#nodes.get(name);
    if (known !== undefined) return known;
    const local = [...this.#cluster.owners].filter(([, owner]) => "pod" in owner && owner.pod.nodeName === name);
    const policed = new PolicedNode(
      this.#cluster.node(name),
      local.map(([address]) => address),
    );
    this.#nodes.set(name, policed);
    return policed;
  }
}

function packetOf({ source, destination, protocol, port }: AddressedFlow): PolicedPacket {
  return {
    source,
    destination,
    protocol: isPortProtocol(protocol) ? (protocol.toLowerCase() as Lowercase<Protocol>) : echoProtocol(source),
    port,
    ...(protocol === "ICMP error" ? { state: "related" as const } : {}),
  };
}

function placeOf(owner: Owner): string | undefined {
  return "pod" in owner ? owner.pod.nodeName : owner.node;
}

function isPortProtocol(protocol: Flow["protocol"]): protocol is Protocol {
  return protocol === "TCP" || protocol === "UDP" || protocol === "SCTP";
}

import type { Address } from "../../../kernel/ip/address.ts";
import type { Protocol } from "../../../objects/model.ts";
import type { Direction } from "../../../policyd/policies/compile/profile.ts";
import type { Flow } from "../../../objects/semantics/policies/flow.ts";
import type { CompiledCluster, CompiledNode } from "./compiled_cluster.ts";
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
  /** Whether the nodes' daemons would let its connection pass if it existed. */
  readonly isKept: boolean;
  /** The directions in which policies in shadow would have dropped it. */
  readonly wouldDrop: ReadonlySet<Direction>;
}

/** The verdicts of all nodes' tables in a cluster on flows, as the interpreter of nftables walks them. */
export class PolicedCluster {
  readonly #cluster: CompiledCluster;
  readonly #nodes = new Map<string | undefined, { readonly compiled: CompiledNode; readonly policed: PolicedNode }>();

  constructor(cluster: CompiledCluster) {
    this.#cluster = cluster;
  }

  /** Sends a packet through the tables of both ends' nodes. */
  send(flow: AddressedFlow): Fate {
    const wouldDrop = new Set<Direction>();
    let [isPassed, isKept] = [true, true];
    for (const place of this.#places(flow)) {
      const { compiled, policed } = this.#node(place);
      const protocol = isPortProtocol(flow.protocol) ? flow.protocol : undefined;
      isKept &&= compiled.verdictOf({ ...flow, protocol }) !== "denied";
      if (!isPassed) continue;
      policed.forget();
      isPassed = policed.send(packetOf(flow)).verdict === "accept";
      for (const direction of policed.shadowed()) wouldDrop.add(direction);
    }
    return { isPassed, isKept, wouldDrop };
  }

  /** The nodes at which an end is. */
  #places({ source, destination }: AddressedFlow): readonly (string | undefined)[] {
    const { holders } = this.#cluster;
    return [...new Set([source, destination].flatMap((address) => holders.get(address) ?? []).map(({ node }) => node))];
  }

  #node(name: string | undefined): { readonly compiled: CompiledNode; readonly policed: PolicedNode } {
    const known = this.#nodes.get(name);
    if (known !== undefined) return known;
    const compiled = this.#cluster.node(name);
    const node = { compiled, policed: new PolicedNode(compiled) };
    this.#nodes.set(name, node);
    return node;
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

function isPortProtocol(protocol: Flow["protocol"]): protocol is Protocol {
  return protocol === "TCP" || protocol === "UDP" || protocol === "SCTP";
}

import type { Address } from "../../../kernel/ip/address.ts";
import type { Protocol } from "../../../policyd/objects/model.ts";
import { type PolicedFlow, evaluateProfile } from "../../../policyd/policies/compile/profile_verdict.ts";
import type { PolicyOptions } from "../../../policyd/policies/compile/options.ts";
import type { Direction } from "../../../policyd/policies/compile/profile.ts";
import type { Flow } from "../../../policyd/semantics/policies/flow.ts";
import type { CompiledCluster, CompiledNode, Owner } from "./compiled_cluster.ts";
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

interface WalkedNode {
  readonly compiled: CompiledNode;
  readonly policed: PolicedNode;
}

/** The verdicts of all nodes' tables in a cluster, and of the profiles, on flows. */
export class PolicedCluster {
  readonly #cluster: CompiledCluster;
  readonly #options: PolicyOptions;
  readonly #nodes = new Map<string | undefined, WalkedNode>();

  constructor(cluster: CompiledCluster, options: PolicyOptions) {
    this.#cluster = cluster;
    this.#options = options;
  }

  /** Sends a packet through the tables of both ends' nodes. */
  send(flow: AddressedFlow): Fate {
    const wouldDrop = new Set<Direction>();
    const isPassed = this.#places(flow).every((place) => {
      const { policed } = this.#node(place);
      policed.forget();
      const { verdict } = policed.send(packetOf(flow));
      for (const direction of policed.shadowed()) wouldDrop.add(direction);
      return verdict === "accept";
    });
    return { isPassed, wouldDrop };
  }

  /**
   * Sends a packet through nodes on which one of its ends has no verdict in the direction that is evaluated.
   *
   * @returns whether it passes; undefined where the end is not a pod, or is not evaluated: for its own node, or for an
   * error
   */
  passesWithout(direction: Direction, flow: AddressedFlow): boolean | undefined {
    const [own, other] = direction === "egress" ? [flow.source, flow.destination] : [flow.destination, flow.source];
    const owner = this.#cluster.owners.get(own);
    if (owner === undefined || !("pod" in owner) || flow.protocol === "ICMP error") return undefined;
    const place = owner.pod.nodeName;
    const { compiled, policed } = this.#node(place);
    if (direction === "ingress" && compiled.ownAddresses.has(other)) return undefined;
    return policed.without(direction, own).send(packetOf(flow)).verdict === "accept";
  }

  /** Returns the verdict of an end's profile; undefined where there is no pod, or no profile is evaluated. */
  judges(direction: Direction, { source, destination, protocol, port }: AddressedFlow): boolean | undefined {
    const [own, other] = direction === "egress" ? [source, destination] : [destination, source];
    const owner = this.#cluster.owners.get(own);
    if (owner === undefined || !("pod" in owner) || protocol === "ICMP error") return undefined;
    const { compiled } = this.#node(owner.pod.nodeName);
    if (direction === "ingress" && compiled.ownAddresses.has(other)) return undefined;
    const profile = compiled.profiles.get(owner.pod.key)?.[direction];
    if (profile === undefined) return true;
    const flow: PolicedFlow = {
      source,
      destination,
      protocol: isPortProtocol(protocol) ? protocol : undefined,
      port,
    };
    return evaluateProfile(profile, flow, compiled.view, this.#options);
  }

  #places({ source, destination }: AddressedFlow): readonly (string | undefined)[] {
    return [...new Set([source, destination].flatMap((address) => this.#placeOf(address)))];
  }

  #placeOf(address: Address): readonly (string | undefined)[] {
    const owner = this.#cluster.owners.get(address);
    return owner === undefined ? [] : [placeOf(owner)];
  }

  #node(name: string | undefined): WalkedNode {
    const known = this.#nodes.get(name);
    if (known !== undefined) return known;
    const compiled = this.#cluster.node(name);
    const local = [...this.#cluster.owners].filter(([, owner]) => "pod" in owner && owner.pod.nodeName === name);
    const policed = new PolicedNode(
      compiled,
      local.map(([address]) => address),
    );
    this.#nodes.set(name, { compiled, policed });
    return { compiled, policed };
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

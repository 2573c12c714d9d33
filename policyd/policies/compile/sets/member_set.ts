import type { Address } from "../../../../kernel/ip/address.ts";
import type { KeyField } from "../../../../kernel/nftables/model/expression.ts";
import type { Chain, Element, SetDefinition } from "../../../../kernel/nftables/model/object.ts";
import type { ContainerPort, Protocol } from "../../../../objects/model.ts";
import type { NodeGroup, PodGroup } from "../profile.ts";

/**
 * A set of the kernel, one for each family, whose elements follow the objects in the cluster.
 *
 * It contains an address of a pod or node once for each source whose group has it and each of the source's ports.
 */
export interface MemberSet {
  /** Without the family's digit at its end. */
  readonly name: string;
  readonly definitions: Readonly<Record<4 | 6, SetDefinition>>;
  readonly sources: readonly MemberSource[];
  /** Whether only allowing rules of NetworkPolicies use it. Such a set allows nothing while it has no elements. */
  readonly isAllowing: boolean;
  /**
   * Whether only denying rules use it. Of several pods or nodes that have one address, each may put it into such a set;
   * into any other set each has to (POL-95).
   */
  readonly isDenying: boolean;
}

export interface MemberSource {
  /** Undefined means every pod. */
  readonly group: PodGroup | NodeGroup | undefined;
  /** The fields after the address in the elements' keys. */
  readonly ports:
    /** Nothing: the key is only the address. */
    | { readonly type: "none" }
    /** Protocol and port, an element each. */
    | { readonly type: "numbers"; readonly ports: readonly { readonly protocol: Protocol; readonly port: number }[] }
    /** Protocol and port of every port that the pod gives this name. */
    | { readonly type: "name"; readonly protocol: Protocol | undefined; readonly name: string };
}

/** A set whose desired elements never change: ranges of addresses, ports; none for addresses known by names. */
export interface FixedSet {
  readonly definition: SetDefinition;
  readonly elements: readonly Element[];
  /** As in {@link MemberSet}. */
  readonly isAllowing: boolean;
}

/** A set that a profile holds. */
export type HeldSet = Pick<MemberSet, "name" | "isAllowing">;

/** The kernel's objects of one profile. Names are hashes of the contents, so equal sets of two profiles are one. */
export interface ProfileObjects {
  /** The chain that the pods' verdict elements lead to comes last, after the chains it uses. */
  readonly chains: readonly Chain[];
  readonly memberSets: readonly MemberSet[];
  readonly fixedSets: readonly FixedSet[];
}

/** The ports of pods by their names; the cluster's pods share few lists of ports. */
const byName = new WeakMap<readonly ContainerPort[], ReadonlyMap<string, readonly ContainerPort[]>>();

/** Returns the ports of a list that a source selects by their name. A policy may ask for thousands of names. */
export function portsNamed(
  ports: readonly ContainerPort[],
  { name, protocol }: Extract<MemberSource["ports"], { readonly type: "name" }>,
): readonly ContainerPort[] {
  const index = byName.get(ports) ?? Map.groupBy(ports, (port) => port.name ?? "");
  byName.set(ports, index);
  return (index.get(name) ?? []).filter((port) => (protocol ?? port.protocol) === port.protocol);
}

/**
 * Returns the keys that one source gives a member's address: the address, with each of its ports if the source has
 * ports.
 *
 * @param ports the named ports of the pod at the address; none for a node's
 */
export function memberKeys(
  { ports }: MemberSource,
  address: Address,
  named: readonly ContainerPort[],
): readonly (readonly KeyField[])[] {
  switch (ports.type) {
    case "none":
      return [[address]];
    case "numbers":
      return ports.ports.map(({ protocol, port }) => [address, protocol.toLowerCase(), port]);
    case "name":
      return portsNamed(named, ports).map(({ protocol, port }) => [address, protocol.toLowerCase(), port]);
  }
}

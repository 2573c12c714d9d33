import type { Chain, Element, SetDefinition } from "../../../../kernel/nftables/model/object.ts";
import type { Protocol } from "../../../../objects/model.ts";
import type { NodeGroup, PodGroup, Profile } from "../profile.ts";

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

/** A set whose elements never change: ranges of addresses, ports. */
export interface FixedSet {
  readonly definition: SetDefinition;
  readonly elements: readonly Element[];
}

/** The kernel's objects of one profile. Names are hashes of the contents, so equal sets of two profiles are one. */
export interface ProfileObjects {
  readonly profile: Profile;
  /** The chain that the pods' verdict elements lead to comes last, after the chains it uses. */
  readonly chains: readonly Chain[];
  readonly memberSets: readonly MemberSet[];
  readonly fixedSets: readonly FixedSet[];
  /** Sets of addresses known by names, whose elements are not desired state. */
  readonly nameSets: readonly SetDefinition[];
}

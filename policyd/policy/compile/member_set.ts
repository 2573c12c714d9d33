import type { SetDefinition } from "../../../kernel/nftables/object.ts";
import type { Chain, Element } from "../../../kernel/nftables/object.ts";
import type { Protocol } from "../../cluster/model.ts";
import type { NodeGroup, PodGroup, Profile } from "./profile.ts";

/**
 * A set of the kernel, one for each family, whose elements follow what is in the cluster.
 *
 * A pod's address is in it as often as its sources say: once for each source whose group has the pod and each of the
 * source's ports; a node's likewise.
 */
export interface MemberSet {
  /** Without the family's digit at its end. */
  readonly name: string;
  readonly definitions: Readonly<Record<4 | 6, SetDefinition>>;
  readonly sources: readonly MemberSource[];
  /** Nothing but what NetworkPolicies allow asks it: without elements it allows nobody. */
  readonly isAllowing: boolean;
}

export interface MemberSource {
  /** Undefined is every pod. */
  readonly group: PodGroup | NodeGroup | undefined;
  /** What follows the address in the elements' keys. */
  readonly ports:
    /** Nothing: the key is the address alone. */
    | { readonly type: "none" }
    /** Protocol and port, an element each. */
    | { readonly type: "numbers"; readonly ports: readonly { readonly protocol: Protocol; readonly port: number }[] }
    /** Protocol and port of all that the pod calls so. */
    | { readonly type: "name"; readonly protocol: Protocol | undefined; readonly name: string };
}

/** A set whose elements never change: ranges of addresses, ports. */
export interface FixedSet {
  readonly definition: SetDefinition;
  readonly elements: readonly Element[];
}

/** What the kernel has of one profile. Names are hashes of what they name, so equal sets of two profiles are one. */
export interface ProfileObjects {
  readonly profile: Profile;
  /** The chain that the pods' verdict elements go to comes last, after those it goes to. */
  readonly chains: readonly Chain[];
  readonly memberSets: readonly MemberSet[];
  readonly fixedSets: readonly FixedSet[];
}

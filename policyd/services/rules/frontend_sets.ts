import { FAMILIES } from "../../../kernel/ip/address.ts";
import type { SetDefinition } from "../../../kernel/nftables/model/object.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { byAddress, FRONTEND_KINDS, frontendTypes, nameOf, words } from "./frontend_kind.ts";

/** The properties of frontends. Each is a set of frontends' keys, named by {@link nameOf}. */
export const FRONTEND_SETS = [
  /** It has endpoints. */
  "",
  /** Its clients leave with the node's address. */
  "masquerade",
  /** Clients from outside only get endpoints of this node, and keep their own address (externalTrafficPolicy Local). */
  "external",
  /** It has no endpoints on any node, or it is also in `drop`. */
  "unserved",
  /** It has no endpoint on this node, and endpoints of other nodes may not be used. */
  "drop",
  /** Only the sources in `allowed` may use it. */
  "restricted",
] as const;
export type FrontendSet = (typeof FRONTEND_SETS)[number];

/** Protocols and ports of the frontends in `restricted`, of both families and spaces; most packets match none. */
export const RESTRICTED_PORTS = "restricted_ports";

/** Addresses by their role; each a set by this name and the family's number. */
export const ADDRESS_SETS = {
  /** Cluster IPs of Services. */
  cluster: "cluster",
  /** The networks of pods on any node; the node's own tables have this set, with Services or without. */
  pods: "pods",
  /** Pods of this node, except those in the host network. */
  localPods: "localpods",
  /** Pairs of a pod of this node with itself. */
  hairpin: "selfpairs",
  /** Addresses that serve NodePorts, if the node has them. */
  nodePorts: "nodeports",
  /** Addresses of other nodes that serve NodePorts. */
  otherNodePorts: "othernodeports",
} as const;

/** Sockets that nodes depend on and that no node port takes; each a set by this name and the family's number. */
export const PROTECTED_SOCKETS = "protected";

/** Returns the sets of frontends and of addresses; Services, pods, nodes and the configuration fill them. */
export function frontendSets(): TablePart {
  const kinds = FRONTEND_KINDS.flatMap((kind): readonly SetDefinition[] => [
    ...FRONTEND_SETS.map((subject) => ({ name: nameOf(subject, kind), key: frontendTypes(kind) })),
    { name: nameOf("allowed", kind), key: [...frontendTypes(kind), words[kind.family].type], isInterval: true },
  ]);
  const addresses = FAMILIES.flatMap((family): readonly SetDefinition[] => {
    const { type } = words[family];
    return [
      { name: `${ADDRESS_SETS.cluster}${family}`, key: [type] },
      { name: `${ADDRESS_SETS.localPods}${family}`, key: [type] },
      { name: `${ADDRESS_SETS.hairpin}${family}`, key: [type, type] },
      { name: `${ADDRESS_SETS.nodePorts}${family}`, key: [type], isInterval: true },
      { name: `${ADDRESS_SETS.otherNodePorts}${family}`, key: [type] },
      { name: `${PROTECTED_SOCKETS}${family}`, key: frontendTypes(byAddress(family)) },
    ];
  });
  const restrictedPorts: SetDefinition = { name: RESTRICTED_PORTS, key: ["inet_proto", "inet_service"] };
  return { sets: [...kinds, restrictedPorts, ...addresses], chains: [] };
}

import type { SetDefinition } from "../../../kernel/nftables/object.ts";
import type { TablePart } from "../../node/table_part.ts";
import { byAddress, FAMILIES, FRONTEND_KINDS, frontendTypes, nameOf, words } from "./frontend_space.ts";

/** What a frontend can be, each a set of frontends' keys by {@link nameOf}. */
export const FRONTEND_SETS = [
  /** It has endpoints. */
  "",
  /** Whoever comes by it leaves with the node's address. */
  "masquerade",
  /** Clients from outside get this node's endpoints alone, with their own address (externalTrafficPolicy Local). */
  "external",
  /** It has no endpoints anywhere, or it is in `drop`, too. */
  "unserved",
  /** It has none on this node, where only such would do. */
  "drop",
  /** Only the sources in `allowed` may use it. */
  "restricted",
] as const;
export type FrontendSet = (typeof FRONTEND_SETS)[number];

/** Protocols and ports of the frontends in `restricted`, of both families and spaces: most packets need no further look. */
export const RESTRICTED_PORTS = "restricted_ports";

/** Addresses by what they are; each a set by this name and the family's number. */
export const ADDRESS_SETS = {
  /** Those of Services in the cluster. */
  cluster: "cluster",
  /** Pods on any node. */
  pods: "pods",
  /** Pods of this node but those of its own network. */
  localPods: "localpods",
  /** Pairs of a pod of this node with itself. */
  hairpin: "selfpairs",
  /** Those by which NodePorts are served, if the node has them. */
  nodePorts: "nodeports",
} as const;

/** Addresses with protocol and port that nodes depend on and no node port takes; each a set by this name and the family's number. */
export const PROTECTED_SOCKETS = "protected";

/** The sets of frontends and of addresses; Services, pods, nodes and the configuration fill them. */
export function frontendSets(): TablePart {
  const kinds = FRONTEND_KINDS.flatMap((kind): readonly SetDefinition[] => [
    ...FRONTEND_SETS.map((subject) => ({ name: nameOf(subject, kind), key: frontendTypes(kind) })),
    { name: nameOf("allowed", kind), key: [...frontendTypes(kind), words[kind.family].type], isInterval: true },
  ]);
  const addresses = FAMILIES.flatMap((family): readonly SetDefinition[] => {
    const { type } = words[family];
    return [
      { name: `${ADDRESS_SETS.cluster}${family}`, key: [type] },
      { name: `${ADDRESS_SETS.pods}${family}`, key: [type], isInterval: true },
      { name: `${ADDRESS_SETS.localPods}${family}`, key: [type] },
      { name: `${ADDRESS_SETS.hairpin}${family}`, key: [type, type] },
      { name: `${ADDRESS_SETS.nodePorts}${family}`, key: [type], isInterval: true },
      { name: `${PROTECTED_SOCKETS}${family}`, key: frontendTypes(byAddress(family)) },
    ];
  });
  const restrictedPorts: SetDefinition = { name: RESTRICTED_PORTS, key: ["inet_proto", "inet_service"] };
  return { sets: [...kinds, restrictedPorts, ...addresses], chains: [] };
}

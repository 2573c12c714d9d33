import type { Transport } from "../../../kernel/ip/protocol.ts";
import { FAMILIES, type Family } from "../../../kernel/ip/address.ts";
import {
  type Concatenation,
  concatenation,
  type JenkinsHash,
  type MapLookup,
  type NumberGenerator,
  type Selector,
} from "../../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import type { FieldType, KeyPart } from "../../../kernel/nftables/model/object.ts";
import type { Statement } from "../../../kernel/nftables/model/statement.ts";

/** How a frontend is found: by address, protocol and port, or on the node's own addresses only by protocol and port. */
export const SPACES = ["service", "port"] as const;
export type Space = (typeof SPACES)[number];

/** Which endpoints: all that a client may use, or this node's, for external clients of a Service with policy Local. */
export const SCOPES = ["all", "local"] as const;
export type Scope = (typeof SCOPES)[number];

/** The kind of a frontend's key: its family and space. */
export interface FrontendKind {
  readonly family: Family;
  readonly space: Space;
}

export const FRONTEND_KINDS: readonly FrontendKind[] = FAMILIES.flatMap((family) =>
  SPACES.map((space) => ({ family, space })),
);

/** Returns the kind of frontends that are found by their address, as most are. */
export function byAddress(family: Family): FrontendKind {
  return { family, space: "service" };
}

/** nft's words for a family, including the family of its NAT. */
export const words = {
  4: { ...familyWords[4], nat: "ip" },
  6: { ...familyWords[6], nat: "ip6" },
} as const;

/** Returns the name of a set or a chain for one kind of frontends: `service4`, `masquerade_port6`. */
export function nameOf(subject: string, { space, family }: FrontendKind): string {
  return `${subject === "" ? "" : `${subject}_`}${space}${family}`;
}

export function frontendTypes({ family, space }: FrontendKind): readonly FieldType[] {
  return space === "service" ? [words[family].type, "inet_proto", "inet_service"] : ["inet_proto", "inet_service"];
}

/** Returns a packet's frontend followed by further fields; of one protocol, or of any that has ports. */
export function frontendKey(
  { family, space }: FrontendKind,
  transport: Transport | "th" = "th",
  ...further: readonly (Selector | NumberGenerator | JenkinsHash)[]
): Concatenation {
  const address = space === "service" ? [words[family].destination] : [];
  return concatenation(...address, "meta l4proto", `${transport} dport`, ...further);
}

/** Returns the key of a map by frontend and further fields. */
export function frontendParts(kind: FrontendKind, ...further: readonly KeyPart[]): readonly KeyPart[] {
  return [...frontendTypes(kind), ...further];
}

/** Sends a packet to the address and port that a map has for it; a packet without an entry continues. */
export function translation(family: Family, from: MapLookup): Statement {
  return { kind: "dnat", target: { lookup: from, family: words[family].nat, hasPort: true } };
}

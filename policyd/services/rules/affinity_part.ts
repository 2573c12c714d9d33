import { TRANSPORTS } from "../../../kernel/ip/protocol.ts";
import { type Address, addressToBytes, FAMILIES, familyOf, type Family } from "../../../kernel/ip/address.ts";
import type { Scalar } from "../../../kernel/nftables/model/data_type.ts";
import {
  type Concatenation,
  concatenation,
  type JenkinsHash,
  lookup,
  randomNumber,
} from "../../../kernel/nftables/model/expression.ts";
import type { Chain, SetDefinition } from "../../../kernel/nftables/model/object.ts";
import {
  goTo,
  hasBits,
  jumpTo,
  not,
  returnToCaller,
  type Rule,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { INET_TABLE, type TablePart } from "../../ruleset/table_part.ts";
import {
  FRONTEND_KINDS,
  frontendKey,
  type FrontendKind,
  frontendParts,
  nameOf,
  type Scope,
  SCOPES,
  translation,
  words,
} from "./frontend_kind.ts";
import { jenkinsHash, scaled } from "./jenkins_hash.ts";
import { loadNumber, numberMap } from "./number_maps.ts";
import { DURATION_BITS, rememberedHash } from "./priority_number.ts";

/** The most clients of all Services with affinity that are remembered at once, per family; further ones do not stay. */
const MOST_CLIENTS = 262_144;
/**
 * The most new clients of one Service's port that are remembered at once; within one timeout {@link NEWCOMER_RATE}
 * times as many. So an outsider with forged source addresses fills at most a tenth of the map through one port (SA-11).
 * The ports of a Service or of a namespace have no bound together: eleven fill the map.
 */
const MOST_NEWCOMERS = 8192;
const NEWCOMER_RATE = 2;
/** The most ports of Services that are rate-limited at once; new clients of further ones are admitted without limit. */
const MOST_PORTS = 65_536;
const HOUR_SECONDS = 3600;
/** Two hashes represent a client's IPv6 address: nft 1.0.6 cannot read a map's update with a longer key. */
const CLIENT_HASHES: readonly JenkinsHash[] = [0x0db2, 0x0db3].map((seed) => ({
  kind: "jhash",
  of: ["ip6 saddr"],
  modulus: 0xffff_ffff,
  seed,
}));

/**
 * Returns the name of the map from a frontend and the hash in a client's entry to the endpoint's number, for usable
 * endpoints.
 */
export function knownMap(kind: FrontendKind, scope: Scope): string {
  return nameOf(scope === "all" ? "known" : "local_known", kind);
}

/** Returns the name of the map from a frontend and an endpoint's number to the endpoint. */
export function keptMap(kind: FrontendKind): string {
  return nameOf("kept", kind);
}

/**
 * Returns the name of the map from a client and the number of a Service's port to a hash of its endpoint, which rules
 * write.
 */
export function clientMap(family: Family): string {
  return `client${family}`;
}

/** Returns the beginning of the keys of a client's entries in {@link clientMap}. */
export function clientPrefix(client: Address): readonly Scalar[] {
  if (familyOf(client) === 4) return [client];
  const bytes = addressToBytes(client);
  return CLIENT_HASHES.map(({ seed, modulus }) => scaled(jenkinsHash(bytes, seed), modulus));
}

/** Returns the rule that looks for a remembered endpoint first, if a packet's port has affinity by its number. */
export function affinityRule(kind: FrontendKind, scope: Scope): Rule {
  return rule(not(hasBits("meta priority", DURATION_BITS, 0)), jumpTo(chainName("client", kind, scope)));
}

/**
 * Returns the sets and chains of session affinity, which keep a client with its endpoint.
 *
 * A client's entry is stored under its address and the number of the Service's port, and holds a hash of the endpoint
 * it was sent to. It is written after the NAT hook, when the packet carries the endpoint's address, and read before.
 * The hash of an unusable endpoint is unknown: the entry is deleted, and the packet is treated as a client's first one.
 * So a change programs only the Service's own elements and affects no clients of other endpoints.
 */
export function affinity(): TablePart {
  const clients = FAMILIES.map((family): SetDefinition => ({
    name: clientMap(family),
    key:
      family === 4
        ? ["ipv4_addr", "classid"]
        : [...CLIENT_HASHES.map(({ modulus }) => randomNumber(modulus)), "classid"],
    data: ["classid"],
    timeout: "per element",
    isDynamic: true,
    size: MOST_CLIENTS,
  }));
  return {
    sets: [
      ...clients,
      { name: REMEMBER, key: ["classid"], data: "verdict" },
      { name: ADMIT, key: ["classid"], data: "verdict" },
      { name: NEWCOMERS, key: ["classid"], timeout: "per element", isDynamic: true, size: MOST_PORTS },
      ...FRONTEND_KINDS.flatMap(kindMaps),
    ],
    chains: FRONTEND_KINDS.flatMap((kind) => SCOPES.flatMap((scope) => clientChains(kind, scope))),
  };
}

function kindMaps(kind: FrontendKind): readonly SetDefinition[] {
  const withNumber = frontendParts(kind, "classid");
  return [
    ...SCOPES.map((scope): SetDefinition => ({ name: knownMap(kind, scope), key: withNumber, data: ["classid"] })),
    { name: keptMap(kind), key: withNumber, data: [words[kind.family].type, "inet_service"] },
  ];
}

/** The map from the number of a timeout to the chain that writes entries with this timeout. */
const REMEMBER = "remember";

/** The map from the number of a timeout to the chain that does the same for clients that are not remembered yet. */
const ADMIT = "admit";

/** The numbers of ports with new clients, each with the rate at which they arrive; rules write it. */
const NEWCOMERS = "newcomers";

/**
 * Sends a packet to the chain that remembers the client's endpoint ({@link rememberChain}), which returns here. The
 * number in the packet's priority selects the chain.
 */
export const remember: Statement = { kind: "vmap", key: "meta priority", mask: DURATION_BITS, map: REMEMBER };

/** As {@link remember}, for a client without an entry: it gets none if its Service's port has too many new clients. */
export const admit: Statement = { kind: "vmap", key: "meta priority", mask: DURATION_BITS, map: ADMIT };

/** Returns the chains of one timeout, and the elements that lead to them. */
export function timeoutRules(
  number: number,
  seconds: number,
): { readonly chains: readonly Chain[]; readonly claims: readonly DesiredElement[] } {
  const leading = (set: string, chain: string): DesiredElement => ({
    table: INET_TABLE,
    set,
    element: { key: [number], data: { kind: "jump", chain } },
  });
  const [remembering, admitting] = [rememberChain(seconds), admitChain(seconds)];
  return {
    chains: [remembering, admitting],
    claims: [leading(REMEMBER, remembering.name), leading(ADMIT, admitting.name)],
  };
}

/** Returns the chain that gives no entry to clients beyond the rate, which refills within half of the timeout. */
function admitChain(seconds: number): Chain {
  const rate = Math.ceil((NEWCOMER_RATE * MOST_NEWCOMERS * HOUR_SECONDS) / seconds);
  const isBeyond: Statement = {
    kind: "dynamic",
    operation: "update",
    set: NEWCOMERS,
    key: "meta priority",
    timeout: 1000 * seconds,
    limit: { kind: "limit", rate, unit: "hour", burst: MOST_NEWCOMERS, isOver: true },
  };
  return { name: `admit_${seconds}`, rules: [rule(isBeyond, returnToCaller), rule(goTo(rememberName(seconds)))] };
}

/**
 * Returns the chain that writes a client's entry or restarts its timeout; the kernel does not change the data of an
 * existing entry. The key omits the timeout's number, so clients keep their endpoints when the timeout changes.
 *
 * @param seconds how long an entry lasts
 */
function rememberChain(seconds: number): Chain {
  return {
    name: rememberName(seconds),
    rules: [
      rule(withoutTimeout),
      ...FAMILIES.map((family) =>
        rule({
          kind: "dynamic",
          operation: "update",
          set: clientMap(family),
          key: clientKey(family),
          timeout: 1000 * seconds,
          data: rememberedHash(words[family].destination),
        }),
      ),
    ],
  };
}

function rememberName(seconds: number): string {
  return `remember_${seconds}`;
}

/** Clears the timeout's number in the number of a port, as the keys of clients' entries need it. */
const withoutTimeout: Statement = { kind: "mask priority", bits: ~DURATION_BITS >>> 0 };

function clientChains(kind: FrontendKind, scope: Scope): readonly Chain[] {
  const stay = chainName("stay", kind, scope);
  const { family } = kind;
  return [
    {
      name: chainName("client", kind, scope),
      rules: [rule(withoutTimeout, loadClient(family), goTo(stay)), rule(loadNumber(numberMap(kind), kind))],
    },
    {
      name: stay,
      rules: [
        // An entry is looked up by the port's number, which the result overwrites, so the number is loaded again.
        rule(loadNumber(numberMap(kind), kind), remember),
        rule(withoutTimeout, loadClient(family)),
        rule({
          kind: "set priority from",
          from: lookup(frontendKey(kind, "th", "meta priority"), knownMap(kind, scope)),
        }),
        ...TRANSPORTS.map((transport) =>
          rule(translation(family, lookup(frontendKey(kind, transport, "meta priority"), keptMap(kind)))),
        ),
        rule(loadNumber(numberMap(kind), kind), withoutTimeout, {
          kind: "dynamic",
          operation: "delete",
          set: clientMap(family),
          key: clientKey(family),
          data: "meta priority",
        }),
        rule(loadNumber(numberMap(kind), kind)),
      ],
    },
  ];
}

function loadClient(family: Family): Statement {
  return { kind: "set priority from", from: lookup(clientKey(family), clientMap(family)) };
}

function clientKey(family: Family): Concatenation {
  return family === 4 ? concatenation("ip saddr", "meta priority") : concatenation(...CLIENT_HASHES, "meta priority");
}

function chainName(subject: "client" | "stay", kind: FrontendKind, scope: Scope): string {
  return nameOf(scope === "all" ? subject : `local_${subject}`, kind);
}

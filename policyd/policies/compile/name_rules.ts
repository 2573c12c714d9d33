import { type Address, type Family, FAMILIES, familyOf } from "../../../kernel/ip/address.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import { commentText } from "../../../kernel/nftables/model/identifier.ts";
import type { Chain, Element, SetDefinition } from "../../../kernel/nftables/model/object.ts";
import {
  anyFlag,
  equals,
  goTo,
  inSet,
  type Match,
  type RateLimit,
  type Rule,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../../ruleset/desired/desired_element.ts";
import { POLICY_TABLE } from "../../../attachment/our_tables.ts";
import { DNS_PORT } from "../../../objects/domain_name.ts";
import type { PolicyOptions } from "./options.ts";
import type { NameGroup, Profile } from "./profile.ts";

/** The names of the sets by which answers of DNS are found, each followed by the family's digit. */
export const ANSWER_SETS = {
  /** Addresses of local pods whose policies have domain names. */
  askers: "askers",
  /** Addresses, protocols and ports from which answers count. */
  servers: "dnsservers",
  /** Those of Services, to which a pod has sent its question: their answers come from endpoints. */
  services: "dnsservices",
  /** Askers with the rates of their answers; rules write it. */
  answered: "answered",
} as const;

type AnswerOptions = Pick<PolicyOptions, "answerLogGroup" | "hasAnswerQueue">;

/** The prefix of the copies of answers. */
export const ANSWER_PREFIX = "drawbridge dns answer";

/** After policies (-5), which may drop the answer. */
const PRIORITY = -4;
/** The largest copy of a packet that the kernel makes (NFULNL_COPY_RANGE_MAX). */
const WHOLE_PACKET = 65_531;
/** More pods than a node has. */
const MOST_PODS = 4096;
/** A pod without answers for this long has its whole burst again. */
const KEPT_MILLISECONDS = 10_000;
/** The rates of copied answers, for each address of a pod and for the node. Reading them takes a fifth of a processor. */
const RATES = {
  pod: { kind: "limit", rate: 200, unit: "second", burst: 500, isOver: false },
  node: { kind: "limit", rate: 2000, unit: "second", burst: 2000, isOver: false },
} as const satisfies Readonly<Record<string, RateLimit>>;
/** The most addresses that pods of a node may know by names. */
export const MOST_KNOWN = 65_536;

/** Returns the sets of the addresses that stand for the names of a rule, for each pod that asked: `pod . address`. */
export function nameSets({ key }: Pick<NameGroup, "key">): Readonly<Record<Family, SetDefinition>> {
  const definition = (family: Family): SetDefinition => ({
    name: `names_${key}_v${family}`,
    key: [familyWords[family].type, familyWords[family].type],
    // The elements are the daemon's running state: neither claimed nor compared.
    isDynamic: true,
    timeout: "per element",
    size: MOST_KNOWN,
  });
  return { 4: definition(4), 6: definition(6) };
}

/** Returns the group that has a set of this name, as one of {@link nameSets}, and the set; undefined for any other set. */
export function nameSetNamed(name: string): (Pick<NameGroup, "key"> & { readonly set: SetDefinition }) | undefined {
  const [, key] = /^names_([0-9a-f]+)_v[46]$/.exec(name) ?? [];
  const set = key === undefined ? undefined : Object.values(nameSets({ key })).find((one) => one.name === name);
  return key === undefined || set === undefined ? undefined : { key, set };
}

/** Returns the match for a packet of a pod to an address that it knows by one of the names. */
export function nameMatch(group: NameGroup, family: Family): Match {
  const { source, destination } = familyWords[family];
  return inSet(concatenation(source, destination), nameSets(group)[family].name);
}

/** The container whose pod knows an address by a name. */
export interface ElementOwner {
  /** The begin of the container's ID. */
  readonly container: string;
  /** Empty where it is too long to be kept. */
  readonly name: string;
}

const PROTOCOLS = ["udp", "tcp"] as const;
const CONTAINER_DIGITS = 12;
const LONGEST_COMMENT = 127;

/** Returns the element of an address that a pod knows. A later daemon reads owner and name from its comment. */
export function knownElement(
  pod: Address,
  remote: Address,
  { container, name }: ElementOwner,
  timeout: number,
): Element {
  const comment = `${container.slice(0, CONTAINER_DIGITS)} ${name}`;
  return {
    key: [pod, remote],
    timeout: Math.max(1, Math.ceil(timeout)),
    comment: commentText(comment.length > LONGEST_COMMENT ? container.slice(0, CONTAINER_DIGITS) : comment),
  };
}

/** Returns the owner in an element's comment; undefined for an element of another program. */
export function elementOwner({ comment = "" }: Element): ElementOwner | undefined {
  const [container, name = "", ...others] = comment.split(" ");
  return container === undefined || container === "" || others.length > 0 ? undefined : { container, name };
}

/** Whether an ID of a container begins as another, which may be cut to the begin. */
export function isContainer(id: string, other: string): boolean {
  return id.slice(0, CONTAINER_DIGITS) === other.slice(0, CONTAINER_DIGITS);
}

/** Returns the sets of the policies' table by which answers are found. */
export function answerSets(): readonly SetDefinition[] {
  return FAMILIES.flatMap((family): readonly SetDefinition[] => {
    const { type } = familyWords[family];
    return [
      { name: `${ANSWER_SETS.askers}${family}`, key: [type] },
      { name: `${ANSWER_SETS.servers}${family}`, key: [type, "inet_proto", "inet_service"] },
      { name: `${ANSWER_SETS.services}${family}`, key: [type] },
      {
        name: `${ANSWER_SETS.answered}${family}`,
        key: [type],
        timeout: "per element",
        isDynamic: true,
        size: MOST_PODS,
      },
    ];
  });
}

/** Returns the element of a pod whose policies have domain names. */
export function askerElement(address: Address): DesiredElement {
  return { table: POLICY_TABLE, set: `${ANSWER_SETS.askers}${familyOf(address)}`, element: { key: [address] } };
}

/** Returns the elements of a DNS server by the address that answers come from. */
export function serverElements(address: Address): readonly DesiredElement[] {
  return PROTOCOLS.map((protocol) => ({
    table: POLICY_TABLE,
    set: `${ANSWER_SETS.servers}${familyOf(address)}`,
    element: { key: [address, protocol, DNS_PORT] },
  }));
}

/** Returns the element of a Service of DNS, by its address that pods ask. */
export function dnsServiceElement(address: Address): DesiredElement {
  return { table: POLICY_TABLE, set: `${ANSWER_SETS.services}${familyOf(address)}`, element: { key: [address] } };
}

/**
 * Returns the chains that copy the answers of DNS servers to pods, after policies have let them pass, or make them wait
 * in a queue. Only answers in a flow that the pod began count, and answers without a flow only from the node itself:
 * NodeLocal DNSCache has its packets untracked. The flow knows the Service that was asked: its address is put back only
 * later. The rates keep a pod that asks all the time from taking the daemon's time. Base chains of their own end
 * with the queue, since a packet that leaves it skips the rest of them.
 */
export function answerHooks({ answerLogGroup: group, hasAnswerQueue }: AnswerOptions): readonly Chain[] {
  const name = `answers${group}_${hasAnswerQueue ? "queue" : "copy"}`;
  const read = (which: Match, isServer: (family: Family) => readonly Match[]): readonly Rule[] =>
    FAMILIES.map((family) => {
      const isAsker = inSet(familyWords[family].destination, `${ANSWER_SETS.askers}${family}`);
      return rule(which, isAsker, ...isServer(family), withinRate(family), goTo(name));
    });
  const ofServer = (family: Family): readonly Match[] => [
    inSet(concatenation(familyWords[family].source, "meta l4proto", "th sport"), `${ANSWER_SETS.servers}${family}`),
  ];
  // nft knows the type of the port that was asked only after a match of the protocol.
  const ofService =
    (protocol: (typeof PROTOCOLS)[number]) =>
    (family: Family): readonly Match[] => [
      equals("meta l4proto", protocol),
      equals("ct original proto-dst", DNS_PORT),
      inSet(familyWords[family].originalDestination, `${ANSWER_SETS.services}${family}`),
    ];
  const isAnswer = equals("ct direction", "reply");
  const answers = [ofServer, ...PROTOCOLS.map(ofService)].flatMap((isServer) => read(isAnswer, isServer));
  const chain = (hook: "forward" | "output", rules: readonly Rule[]): Chain => ({
    name: hasAnswerQueue ? `${name}_${hook}` : `answers${group}_${hook}`,
    base: { type: "filter", hook, priority: PRIORITY, policy: "accept" },
    rules,
  });
  // Nobody reads the copies while answers wait.
  const copy = { kind: "log", prefix: ANSWER_PREFIX, group, snapLength: WHOLE_PACKET } as const;
  const wait: readonly Statement[] = hasAnswerQueue ? [{ kind: "queue", number: group }] : [];
  return [
    { name, rules: [rule(RATES.node, copy, ...wait)] },
    chain("forward", answers),
    chain("output", [...answers, ...read(anyFlag("ct state", "untracked"), ofServer)]),
  ];
}

/** Matches an answer within the rate of its pod's address. */
function withinRate(family: Family): Statement {
  return {
    kind: "dynamic",
    operation: "update",
    set: `${ANSWER_SETS.answered}${family}`,
    key: familyWords[family].destination,
    timeout: KEPT_MILLISECONDS,
    limit: RATES.pod,
  };
}

const groups = new WeakMap<Profile, readonly NameGroup[]>();

/** Returns the groups of names that the rules of a profile in force use. */
export function nameGroupsOf(profile: Profile | undefined): readonly NameGroup[] {
  if (profile === undefined) return [];
  const known = groups.get(profile);
  if (known !== undefined) return known;
  const all = namedPeers(profile).map(({ group }) => [group.key, group] as const);
  const found = [...new Map(all).values()];
  groups.set(profile, found);
  return found;
}

/** A list of names in a rule of a policy. */
export interface NamedPeer {
  /** The policy's kind and key. */
  readonly policy: string;
  readonly group: NameGroup;
}

/** Returns the lists of names in the rules of a profile in force. */
export function namedPeers(profile: Profile): readonly NamedPeer[] {
  const rules = [profile.admin, profile.isolation?.rules ?? [], profile.shadow?.rules ?? []].flat();
  return rules.flatMap(({ origin: { kind, policy }, peers = [] }) =>
    peers.flatMap((group) => (group.type === "names" ? [{ policy: `${kind} ${policy}`, group }] : [])),
  );
}

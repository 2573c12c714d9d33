import { concatenation } from "../../../kernel/nftables/expression.ts";
import type { Chain, SetDefinition, Table, TableReference } from "../../../kernel/nftables/object.ts";
import type { Rule, Statement } from "../../../kernel/nftables/statement.ts";
import {
  accept,
  anyFlag,
  counter,
  dropping,
  equals,
  goTo,
  inPrefix,
  inSet,
  jumpTo,
  not,
  oneOf,
  rule,
} from "../../../kernel/nftables/statement.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { brakeHooks, crowdingChains, CrowdingReason, crowdingSets, limitHooks } from "./crowding.ts";
import type { PolicyOptions } from "./options.ts";
import { familyWords } from "../../../kernel/nftables/family_words.ts";
import type { Direction } from "./profile.ts";
import { FAMILIES } from "./words.ts";

/** The table of policies alone: its sets and chains come and go with them. */
export const POLICY_TABLE: TableReference = Object.freeze({ family: "inet", name: "drawbridge-policy" });

/** The label (nf_conntrack's bit) of a connection that was judged and allowed. */
export const ALLOWED_LABEL = 100;

/** The static sets' names; all but the two of connections are followed by the family's digit. */
export const POLICY_SETS = {
  /** Addresses of the bridge whose profiles are in force. */
  known: "known",
  /** Where this node's pods are, known or not. */
  own: "own",
  /** Pairs of a local pod's addresses with each other. */
  self: "self",
  /**
   * Maps from a local pod's address to its verdict: the chain that judges it, or `return` where no policy selects the pod. Without
   * an element nothing passes.
   */
  egress: "egress",
  ingress: "ingress",
  /** Connections to be reset; there with `policyReset` alone. */
  cut: "cut",
  /** Connections that are allowed and were there before the table, so that the kernel has no place for their label. */
  settled: "settled",
} as const;

/** The comments of the static rules that drop, by which people and metrics tell their counters apart. */
export const PolicyDropReason = {
  ANSWER: "answer of no allowed connection",
  SOURCE: "source not known yet",
  DESTINATION: "destination not known yet",
  LINK_LOCAL: "link-local source",
  ...CrowdingReason,
} as const satisfies Readonly<Record<string, string>>;

const LINK_LOCAL = parseCidr("fe80::/10");
/** What is sent with another has passed a router (RFC 4861 section 7.1). */
const ND_HOP_LIMIT = 255;

type TableOptions = Pick<PolicyOptions, "bridge" | "policyReset">;

/**
 * The table of policies without what depends on the cluster.
 *
 * Packets to and from pods are judged by addresses, after destination NAT and before source NAT; -5 comes after the
 * checks of Services at -10 (SVC-04), so that one without endpoints refuses before policies drop. The label of a
 * connection that was judged and allowed is the only fast path: all others are judged, or dropped where they are the
 * answer to something. It is set in the original direction alone, since answers would bring a cut connection back to
 * life. A packet on the bridge without a verdict passes nothing, in neither direction (POL-09): that no policy selects a pod is
 * a verdict, too.
 *
 * - `forward`: pods with pods and the outside.
 * - `input`: pods with their node. Neighbour discovery and multicast reports come first; link-local addresses are in no
 *   map, so nothing else from them passes.
 * - `output`: the node with its pods, which no policy keeps apart (POL-07). What leaves by another interface than theirs is
 *   not for them, tunnels' packets among it, and passes first. Destinations of the rest are told by their addresses, since a
 *   packet that NAT has moved still has its old interface here: to a pod of this node that is not known yet it goes no further
 *   where its address is in `own` and not the node's.
 */
export function policyTable(options: TableOptions): Table {
  return {
    ...POLICY_TABLE,
    sets: setsOf(options),
    chains: [
      ...judgingChains(options),
      decide(options),
      ...crowdingChains({ ...options, known: POLICY_SETS.known, neighbours }),
      ...prerouting(options),
      forward(options),
      input(options),
      output(options),
    ],
  };
}

function setsOf({ policyReset }: TableOptions): readonly SetDefinition[] {
  const { known, own, self, egress, ingress, cut, settled } = POLICY_SETS;
  return [
    ...FAMILIES.flatMap((family): readonly SetDefinition[] => {
      const { type } = familyWords[family];
      return [
        { name: `${known}${family}`, key: [type] },
        { name: `${own}${family}`, key: [type], isInterval: true },
        { name: `${self}${family}`, key: [type, type] },
        { name: `${egress}${family}`, key: [type], data: "verdict" },
        { name: `${ingress}${family}`, key: [type], data: "verdict" },
      ];
    }),
    ...crowdingSets(),
    { name: settled, key: ["ct_id"] },
    ...(policyReset ? [{ name: cut, key: ["ct_id"] } as const] : []),
  ];
}

function base(hook: "forward" | "input" | "output"): NonNullable<Chain["base"]> {
  return { type: "filter", hook, priority: -5, policy: "accept" };
}

/** What was judged before passes. */
const isAllowed = rule(equals("ct label", ALLOWED_LABEL), accept);
/** So does what was there before the table, and is allowed. */
const isSettled = rule(inSet("ct id", POLICY_SETS.settled), accept);
/** Untracked packets are judged one by one. */
const mayBegin = anyFlag("ct state", "new", "untracked");

/**
 * Errors about a connection pass with it (POL-56). By then those of pods about connections of others have been dropped
 * ({@link relatedPackets}), so this and the label of the quoted connection let no such error through.
 */
const errors: readonly Rule[] = [
  rule(
    oneOf("icmp type", ["destination-unreachable", "time-exceeded", "parameter-problem"]),
    anyFlag("ct state", "related"),
    accept,
  ),
  rule(
    oneOf("icmpv6 type", ["destination-unreachable", "packet-too-big", "time-exceeded", "parameter-problem"]),
    anyFlag("ct state", "related"),
    accept,
  ),
];

const neighbours: readonly Rule[] = [
  rule(
    oneOf("icmpv6 type", ["nd-router-solicit", "nd-neighbor-solicit", "nd-neighbor-advert"]),
    equals("ip6 hoplimit", ND_HOP_LIMIT),
    accept,
  ),
  rule(
    oneOf("icmpv6 type", ["mld-listener-query", "mld-listener-report", "mld-listener-done", "mld2-listener-report"]),
    accept,
  ),
];

const linkLocal = dropping(PolicyDropReason.LINK_LOCAL, inPrefix("ip6 saddr", LINK_LOCAL));

/** After connection tracking (-200) and before destination NAT (-100). */
const RESET_PRIORITY = -150;

/**
 * Resets what is left of connections that were cut. The resets themselves leave by the node's output, and come in again
 * when they are for the node, as part of the connection they are about (nf_ct_attach): what answers one drops it.
 */
function resets({ policyReset }: TableOptions): readonly Rule[] {
  if (!policyReset) return [];
  return [
    rule(anyFlag("tcp flags", "rst"), anyFlag("ct state", "related"), accept),
    rule(inSet("ct id", POLICY_SETS.cut), counter, { kind: "reject", reply: "tcp reset" }),
  ];
}

/**
 * What comes in is answered as it came, before NAT: br_netfilter sends the answer to a bridged packet straight to its port
 * (nf_send_reset), past the hooks that would turn the endpoint's address back into the Service's.
 */
function prerouting(options: TableOptions): readonly Chain[] {
  if (!options.policyReset) return [];
  const hook = { type: "filter", hook: "prerouting", priority: RESET_PRIORITY, policy: "accept" } as const;
  return [{ name: "prerouting", base: hook, rules: resets(options) }];
}

const answers = dropping(PolicyDropReason.ANSWER, equals("ct direction", "reply"));

function unknown(reason: string, end: "source" | "destination", ...conditions: readonly Statement[]): readonly Rule[] {
  return FAMILIES.map((family) =>
    dropping(reason, ...conditions, not(inSet(familyWords[family][end], `${POLICY_SETS.known}${family}`))),
  );
}

/** The hooks of pods with too many connections ({@link limitHooks}). */
export const crowdingHooks = limitHooks([isAllowed, isSettled]);

/** The hooks of a table that is nearly full ({@link brakeHooks}). */
export const brakingHooks = brakeHooks([isAllowed, isSettled]);

/** The chains that judge a packet by the verdicts of its two ends. */
const Judging = { BOTH: "judge", SENDER: "sender", RECEIVER: "receiver", UNKNOWN: "unknown_sender" } as const;

/**
 * Returns the chains that judge a packet by both ends, and label its connection.
 *
 * A verdict ends the chain that asks for it: `return` goes back to `judge`, and a profile's chain, to which the element goes,
 * returns there too where it allows. So the rule after the lookups sees only addresses that have no verdict, and drops those on
 * the bridge. An end elsewhere has a verdict only where it says that it is a pod of this node, which holds then.
 */
function judgingChains({ bridge }: TableOptions): readonly Chain[] {
  const verdicts = (direction: Direction): readonly Rule[] =>
    FAMILIES.map((family) => {
      const key = familyWords[family][direction === "egress" ? "source" : "destination"];
      return rule({ kind: "vmap", key, map: `${POLICY_SETS[direction]}${family}` });
    });
  return [
    { name: Judging.UNKNOWN, rules: [linkLocal, dropping(PolicyDropReason.SOURCE)] },
    { name: Judging.SENDER, rules: [...verdicts("egress"), rule(equals("iifname", bridge), goTo(Judging.UNKNOWN))] },
    {
      name: Judging.RECEIVER,
      rules: [...verdicts("ingress"), dropping(PolicyDropReason.DESTINATION, equals("oifname", bridge))],
    },
    {
      name: Judging.BOTH,
      rules: [
        rule(jumpTo(Judging.SENDER)),
        rule(jumpTo(Judging.RECEIVER)),
        rule({ kind: "set label", bit: ALLOWED_LABEL }, accept),
      ],
    },
  ];
}

/** Judges what is neither labelled nor an answer, by both ends; what may begin a flow does not come here. */
function decide(options: TableOptions): Chain {
  const { bridge } = options;
  return {
    name: "decide",
    rules: [
      ...unknown(PolicyDropReason.SOURCE, "source", equals("iifname", bridge)),
      ...unknown(PolicyDropReason.DESTINATION, "destination", equals("oifname", bridge)),
      ...errors,
      answers,
      rule(goTo(Judging.BOTH)),
    ],
  };
}

function forward({ bridge }: TableOptions): Chain {
  return {
    name: "forward",
    base: base("forward"),
    rules: [
      isAllowed,
      rule(mayBegin, equals("iifname", bridge), goTo(Judging.BOTH)),
      rule(mayBegin, equals("oifname", bridge), goTo(Judging.BOTH)),
      isSettled,
      rule(equals("iifname", bridge), goTo("decide")),
      rule(equals("oifname", bridge), goTo("decide")),
    ],
  };
}

function input(options: TableOptions): Chain {
  return {
    name: "input",
    base: base("input"),
    rules: [
      rule(not(equals("iifname", options.bridge)), accept),
      isAllowed,
      rule(anyFlag("ct state", "new"), goTo(Judging.BOTH)),
      isSettled,
      ...neighbours,
      linkLocal,
      ...unknown(PolicyDropReason.SOURCE, "source"),
      ...errors,
      answers,
      rule(goTo(Judging.BOTH)),
    ],
  };
}

function output(options: TableOptions): Chain {
  const toBridge = [equals("oifname", options.bridge), equals("fib daddr type", "unicast")];
  const toKnown = FAMILIES.map((family) => inSet(familyWords[family].destination, `${POLICY_SETS.known}${family}`));
  return {
    name: "output",
    base: base("output"),
    rules: [
      rule(not(equals("oifname", options.bridge)), not(anyFlag("ct status", "dnat")), accept),
      isAllowed,
      // A flow from the node itself to a pod is never denied.
      ...toKnown.map((match) =>
        rule(anyFlag("ct state", "new"), match, { kind: "set label", bit: ALLOWED_LABEL }, accept),
      ),
      isSettled,
      ...neighbours,
      ...unknown(PolicyDropReason.DESTINATION, "destination", ...toBridge),
      ...errors,
      ...resets(options),
      ...toKnown.map((match) =>
        rule(equals("ct direction", "original"), match, { kind: "set label", bit: ALLOWED_LABEL }, accept),
      ),
      ...FAMILIES.map((family) =>
        dropping(
          PolicyDropReason.DESTINATION,
          equals("ct direction", "original"),
          inSet(familyWords[family].destination, `${POLICY_SETS.own}${family}`),
          equals("fib daddr type", "unicast"),
        ),
      ),
      ...toKnown.map((match) => dropping(PolicyDropReason.ANSWER, equals("ct direction", "reply"), match)),
    ],
  };
}

/** The pair of addresses by which a packet of a pod to itself is told. */
export function selfMatch(family: 4 | 6): Statement {
  const { source, destination } = familyWords[family];
  return inSet(concatenation(source, destination), `${POLICY_SETS.self}${family}`);
}

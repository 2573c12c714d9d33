import { FAMILIES } from "../../../kernel/ip/address.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import type { Chain, SetDefinition, Table } from "../../../kernel/nftables/model/object.ts";
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
  type Rule,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import { LINK_LOCAL } from "../../../kernel/ip/special.ts";
import {
  brakeHooks,
  crowdingChains,
  CrowdingReason,
  crowdingSets,
  limitHooks,
} from "../connection_limit/limit_rules.ts";
import { answerSets } from "./name_rules.ts";
import type { PolicyOptions } from "./options.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import type { Direction } from "./profile.ts";
import { POLICY_TABLE } from "../../../attachment/our_tables.ts";

export { POLICY_TABLE };

/** The label (nf_conntrack's bit) of a connection that was evaluated and allowed. */
export const ALLOWED_LABEL = 100;

/** The names of the static sets; all except the two of connections are followed by the family's digit. */
export const POLICY_SETS = {
  /** Addresses on the bridge whose profiles are in force. */
  known: "known",
  /** The networks of this node's pods, known or not. */
  own: "own",
  /** Pairs of a local pod's addresses with each other. */
  self: "self",
  /**
   * Maps from a local pod's address to its verdict: its profile's chain, or `return` if no policy selects the pod.
   * Without an element nothing passes.
   */
  egress: "egress",
  ingress: "ingress",
  /** Connections to be reset; exists only with `policyReset`. */
  cut: "cut",
  /** Allowed connections that are older than the table, for which the kernel has no room for a label. */
  settled: "settled",
} as const;

/** The comments of the static rules that drop, by which administrators and metrics tell their counters apart. */
export const PolicyDropReason = {
  ANSWER: "answer of no allowed connection",
  SOURCE: "source not known yet",
  DESTINATION: "destination not known yet",
  LINK_LOCAL: "link-local source",
  ...CrowdingReason,
} as const satisfies Readonly<Record<string, string>>;

/** A packet with any other hop limit has passed a router (RFC 4861 section 7.1). */
const ND_HOP_LIMIT = 255;

type TableOptions = Pick<PolicyOptions, "bridge" | "policyReset">;

/**
 * Returns the table of policies without the parts that depend on the cluster.
 *
 * Packets to and from pods are evaluated by addresses, after destination NAT and before source NAT. Priority -5 comes
 * after the checks of Services at -10 (SVC-04), so that a Service without endpoints refuses before policies drop. The
 * label of an evaluated and allowed connection is the only fast path: all other packets are evaluated, or dropped if
 * they are answers. The label is set only in the original direction, since answers would otherwise revive a cut
 * connection. An address on the bridge without a verdict passes nothing in either direction (POL-09): the fact that no
 * policy selects a pod is a verdict, too.
 *
 * - `forward`: traffic of pods with pods and the outside.
 * - `input`: traffic of pods with their node. Neighbour discovery and multicast reports come first; link-local
 *   addresses are in no map, so nothing else from them passes.
 * - `output`: traffic of the node with its pods, which policies always allow (POL-07). Packets that leave by another
 *   interface than the pods', such as a tunnel's, are not for them and pass first. The others are recognised by their
 *   destination address, since a packet whose destination NAT has changed still has its old interface here. A packet to
 *   a pod of this node that is not known yet is dropped if its address is in `own` and is not the node's.
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
    ...answerSets(),
    { name: settled, key: ["ct_id"] },
    ...(policyReset ? [{ name: cut, key: ["ct_id"] } as const] : []),
  ];
}

function base(hook: "forward" | "input" | "output"): NonNullable<Chain["base"]> {
  return { type: "filter", hook, priority: -5, policy: "accept" };
}

/** Lets evaluated and allowed connections pass. */
const isAllowed = rule(equals("ct label", ALLOWED_LABEL), accept);
/** Lets allowed connections pass that are older than the table. */
const isSettled = rule(inSet("ct id", POLICY_SETS.settled), accept);
/** Untracked packets are evaluated one by one. */
const mayBegin = anyFlag("ct state", "new", "untracked");

/**
 * Errors about a connection pass with it (POL-56). Errors of pods about connections of others have already been dropped
 * (policyd/node/tables/related_packets.ts), so neither these rules nor the label of the quoted connection let one
 * through.
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

const linkLocal = dropping(PolicyDropReason.LINK_LOCAL, inPrefix("ip6 saddr", LINK_LOCAL[6]));

/** After connection tracking (-200) and before destination NAT (-100). */
const RESET_PRIORITY = -150;

/**
 * Returns the rules that reset cut connections at their next packet. The resets leave by the node's output, and come in
 * again if they are for the node, as part of their connection (nf_ct_attach): the rule for answers drops them.
 */
function resets({ policyReset }: TableOptions): readonly Rule[] {
  if (!policyReset) return [];
  return [
    rule(anyFlag("tcp flags", "rst"), anyFlag("ct state", "related"), accept),
    rule(inSet("ct id", POLICY_SETS.cut), counter, { kind: "reject", reply: "tcp reset" }),
  ];
}

/**
 * Returns the hook that resets incoming packets before NAT: br_netfilter sends the answer to a bridged packet straight
 * to its port (nf_send_reset), past the hooks that would translate the endpoint's address back to the Service's.
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

/** The names of the chains that evaluate a packet by the verdicts of its two ends. */
const Judging = { BOTH: "judge", SENDER: "sender", RECEIVER: "receiver", UNKNOWN: "unknown_sender" } as const;

/**
 * Returns the chains that evaluate a packet by both ends, and label its connection.
 *
 * A verdict ends the chain that looks it up: `return` goes back to `judge`, and a profile's chain, which an element
 * leads to, returns there too if it allows. So the rule after the lookups only sees addresses without a verdict, and
 * drops those on the bridge. An address elsewhere has a verdict only if it is also a pod's of this node, and the
 * verdict then applies.
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

/** Returns the chain for packets without a label that begin no flow: it drops answers and evaluates the rest. */
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
      // A flow from the node to a pod is never denied.
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

/** Returns the match for a packet of a pod to itself, by its pair of addresses. */
export function selfMatch(family: 4 | 6): Statement {
  const { source, destination } = familyWords[family];
  return inSet(concatenation(source, destination), `${POLICY_SETS.self}${family}`);
}

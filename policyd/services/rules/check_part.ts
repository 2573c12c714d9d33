import { FAMILIES, type Family } from "../../../kernel/ip/address.ts";
import type { Chain } from "../../../kernel/nftables/model/object.ts";
import { LOOPBACK } from "../../../kernel/ip/special.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import {
  anyFlag,
  dropping,
  equals,
  goTo,
  inPrefix,
  inSet,
  jumpTo,
  type Match,
  not,
  returnToCaller,
  type Rule,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import type { ServiceRules } from "./context.ts";
import { ADDRESS_SETS, RESTRICTED_PORTS } from "./frontend_sets.ts";
import { FRONTEND_KINDS, frontendKey, type FrontendKind, nameOf, words } from "./frontend_kind.ts";
import { atNoAddress, fromLocalPod, ofFamily, ofFrontend, ofOtherNode } from "./nat_part.ts";

/** The comments of the rules that drop, by which administrators and metrics tell their counters apart. */
export const ServiceDropReason = {
  NO_LOCAL: "no endpoint on this node",
  SOURCE: "source not allowed by the Service",
  INVALID: "invalid for connection tracking",
  LOOPBACK: "loopback address from outside",
} as const satisfies Readonly<Record<string, string>>;

/**
 * Returns the rules that drop or reject packets to Services.
 *
 * - Before NAT, at -110, they drop sources outside of a Service's ranges (LB-06, {@link sourceHooks}).
 * - They drop 127.0.0.0/8 from outside ({@link fromOutside}).
 * - At -90 they drop packets that conntrack calls invalid and that concern a Service or come from a local pod. NAT
 *   leaves such packets as they are, so they or their answers would leave with the wrong address.
 * - After NAT, at filter-10 and so before policies, they handle packets that found no endpoint. Pods and the node,
 *   which may use endpoints elsewhere despite policy Local, are already translated by then (NE-06). A frontend without
 *   any endpoint is refused; one without an endpoint only on this node drops (ETP-03, NE-04).
 */
export function checks(rules: ServiceRules): TablePart {
  return {
    sets: [],
    chains: [
      {
        name: "sources",
        rules: [
          ...FRONTEND_KINDS.map((kind) => sourceRule(kind, ...ofFrontend("restricted", kind), ...atNoAddress(kind))),
          ...FAMILIES.map((family) => sourceRule({ family, space: "port" }, ...ofOtherNode("restricted", family))),
        ],
      },
      ...(rules.dropInvalid ? [{ name: "invalid", rules: invalidRules() }] : []),
      {
        name: "to_loopback",
        rules: [
          // The packet did not arrive with a loopback address: NAT has written it.
          rule(equals("ct direction", "original"), anyFlag("ct status", "dnat"), returnToCaller),
          rule(equals("ct direction", "reply"), anyFlag("ct status", "snat"), returnToCaller),
          dropping(ServiceDropReason.LOOPBACK),
        ],
      },
      { name: "refuse", rules: refusals(rules) },
      ...FRONTEND_KINDS.map(answerChain),
      ...(["input", "forward", "output"] as const).flatMap((hook) =>
        FAMILIES.map((family) => unservedChain(family, hook)),
      ),
    ],
    shared: {
      nat_prerouting: [fromOutside("ip saddr"), fromOutside("ip daddr")],
      after_nat_prerouting: [
        fromOutside("ip saddr"),
        dropping(ServiceDropReason.LOOPBACK, ...outside("ct original ip daddr"), equals("ct direction", "original")),
        ...(rules.dropInvalid ? [rule(anyFlag("ct state", "invalid"), jumpTo("invalid"))] : []),
      ],
      filter_input: [fromOutside("ip saddr"), rule(...outside("ip daddr"), jumpTo("to_loopback"))],
    },
    sharedForNew: {
      filter_input: toUnserved("input"),
      filter_forward: toUnserved("forward"),
      filter_output: toUnserved("output"),
    },
  };
}

function sourceRule(kind: FrontendKind, ...isRestricted: readonly Statement[]): Rule {
  const isAllowed = inSet(frontendKey(kind, "th", words[kind.family].source), nameOf("allowed", kind));
  return dropping(ServiceDropReason.SOURCE, ...isRestricted, not(isAllowed));
}

/**
 * The hooks before NAT for sources outside of a Service's ranges, which exist while a Service has any. They check every
 * packet of an unanswered connection, so that a change of the ranges also stops a client that keeps sending.
 */
export const sourceHooks: readonly Chain[] = (["prerouting", "output"] as const).map((hook): Chain => ({
  name: `sources_${hook}`,
  base: { type: "filter", hook, priority: -110, policy: "accept" },
  rules: [
    rule(
      anyFlag("ct state", "new"),
      inSet(concatenation("meta l4proto", "th dport"), RESTRICTED_PORTS),
      jumpTo("sources"),
    ),
  ],
}));

/**
 * Drops packets with a loopback address that come from outside. The kernel does so itself, without `route_localnet`.
 *
 * The first packet of a flow is checked before NAT changes its destination. Packets that are translated or invalid are
 * checked after destination NAT: by their source, which has not changed yet. Translated ones are also checked by the
 * original destination of their flow, since our chain before NAT does not see what another program's chain has
 * translated. All other packets can only be for the node itself and are checked in its input hook. By then NAT may have
 * given a packet a loopback address: as an answer to a client on the node's localhost (portmap and Docker with
 * `route_localnet`), or as another program's redirection to a socket there.
 */
function fromOutside(field: "ip saddr" | "ip daddr"): Rule {
  return dropping(ServiceDropReason.LOOPBACK, ...outside(field));
}

function outside(field: "ip saddr" | "ip daddr" | "ct original ip daddr"): readonly Match[] {
  return [inPrefix(field, LOOPBACK[4]), not(equals("iifname", "lo"))];
}

function toUnserved(hook: "input" | "forward" | "output"): readonly Rule[] {
  return FAMILIES.map((family) =>
    rule(ofFamily(family), anyFlag("ct state", "new"), goTo(`unserved${family}_${hook}`)),
  );
}

function invalidRules(): readonly Rule[] {
  return [
    ...FRONTEND_KINDS.map((kind) => dropping(ServiceDropReason.INVALID, ...ofFrontend("", kind))),
    ...FAMILIES.map((family) => dropping(ServiceDropReason.INVALID, fromLocalPod(family))),
  ];
}

const unreachable: Statement = { kind: "reject", reply: "icmpx port-unreachable" };

function refusals({ tcpReset }: ServiceRules): readonly Rule[] {
  return [...(tcpReset ? [rule({ kind: "reject", reply: "tcp reset" })] : []), rule(unreachable)];
}

/** Returns the chain for frontends without endpoints: it drops if only this node has none, and refuses otherwise. */
function answerChain(kind: FrontendKind): Chain {
  return {
    name: nameOf("unserved", kind),
    rules: [dropping(ServiceDropReason.NO_LOCAL, inSet(frontendKey(kind), nameOf("drop", kind))), rule(goTo("refuse"))],
  };
}

/**
 * Returns the chain for packets that found no endpoint. Forwarded packets are never for the node or its NodePorts.
 *
 * Ports that a Service's own address does not have are refused too, since no machine has the address; never by a TCP
 * reset, which would reveal that a Service exists.
 */
function unservedChain(family: Family, hook: "input" | "forward" | "output"): Chain {
  const kinds = FRONTEND_KINDS.filter(
    (kind) => kind.family === family && (hook !== "forward" || kind.space !== "port"),
  );
  return {
    name: `unserved${family}_${hook}`,
    rules: [
      ...kinds.map((kind) => rule(...ofFrontend("unserved", kind), goTo(nameOf("unserved", kind)))),
      rule(inSet(words[family].destination, `${ADDRESS_SETS.cluster}${family}`), unreachable),
    ],
  };
}

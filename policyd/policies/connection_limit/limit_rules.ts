import { FAMILIES } from "../../../kernel/ip/address.ts";
import type { Selector } from "../../../kernel/nftables/model/expression.ts";
import { familyWords } from "../../../kernel/nftables/model/family_words.ts";
import type { Chain, SetDefinition } from "../../../kernel/nftables/model/object.ts";
import {
  accept,
  anyFlag,
  dropping,
  equals,
  goTo,
  inSet,
  type Match,
  not,
  type Rule,
  rule,
  type Statement,
} from "../../../kernel/nftables/model/statement.ts";

/** The names of the sets, each followed by the family's digit. */
export const CROWDING_SETS = {
  /** Addresses of pods with too many connections: no new ones begin from them or, to those here, from outside. */
  crowded: "crowded",
  /** Addresses of local pods that began connections while the table was nearly full, with rates; rules write it. */
  begun: "begun",
} as const;

/** The reasons for drops by rules of this file, as their comments. */
export const CrowdingReason = {
  CROWDED: "pod with too many connections",
  BRAKED: "pod that begins connections too fast for a table that is nearly full",
} as const;

/** Before policies, which are evaluated at -5 and would let pass a connection that they allow. */
const PRIORITY = -6;
/** More pods than a node has. */
const MOST_PODS = 4096;
/** An address that began nothing for this long has its whole burst again. */
const KEPT_MILLISECONDS = 10_000;
/**
 * The rate at which a pod's address may begin connections while the table is nearly full. It leaves the daemon time to
 * count: 50 pods that all use it up need 130 ms for a tenth of the smallest usual table (131,072).
 */
const BRAKE = { rate: 2000, burst: 500 } as const;

/** The parts of the surrounding table that the rules need. */
export interface CrowdingParts {
  readonly bridge: string;
  /** The name of the sets of addresses whose pods are known, without the family's digit. */
  readonly known: string;
  /** Neighbour discovery and multicast reports: no flow begins by them. */
  readonly neighbours: readonly Rule[];
}

export function crowdingSets(): readonly SetDefinition[] {
  return FAMILIES.flatMap((family): readonly SetDefinition[] => {
    const key = [familyWords[family].type];
    return [
      { name: `${CROWDING_SETS.crowded}${family}`, key },
      { name: `${CROWDING_SETS.begun}${family}`, key, timeout: "per element", isDynamic: true, size: MOST_PODS },
    ];
  });
}

/** Returns the chains that {@link limitHooks} and {@link brakeHooks} lead to. They cost nothing without such hooks. */
export function crowdingChains({ bridge, known, neighbours }: CrowdingParts): readonly Chain[] {
  const fromBridge = equals("iifname", bridge);
  const crowded = (end: "source" | "destination", ...conditions: readonly Statement[]): readonly Rule[] =>
    FAMILIES.map((family) =>
      dropping(
        CrowdingReason.CROWDED,
        ...conditions,
        inSet(familyWords[family][end], `${CROWDING_SETS.crowded}${family}`),
      ),
    );
  const braked = (end: "source" | "destination", where: Match): readonly Rule[] =>
    FAMILIES.map((family) => {
      const field = familyWords[family][end];
      return dropping(CrowdingReason.BRAKED, where, inSet(field, `${known}${family}`), tooFast(family, field));
    });
  return [
    {
      name: "crowded_forward",
      // A connection to a pod of another node counts there.
      rules: [...crowded("source"), ...crowded("destination", not(fromBridge), equals("oifname", bridge))],
    },
    // Neighbour discovery is untracked and begins no flow; the node finds a pod's link by the pod's answers to it.
    { name: "crowded_input", rules: [...neighbours, ...crowded("source", fromBridge)] },
    { name: "braked_forward", rules: [...braked("source", fromBridge), ...braked("destination", not(fromBridge))] },
    { name: "braked_input", rules: braked("source", fromBridge) },
  ];
}

function tooFast(family: 4 | 6, key: Selector): Statement {
  return {
    kind: "dynamic",
    operation: "update",
    set: `${CROWDING_SETS.begun}${family}`,
    key,
    timeout: KEPT_MILLISECONDS,
    limit: { kind: "limit", rate: BRAKE.rate, unit: "second", burst: BRAKE.burst, isOver: true },
  };
}

/**
 * Returns the hooks that let no new connections of pods with too many begin; they exist while there is such a pod. They
 * check every packet of an unanswered connection, including those a conntrack helper has announced (related), and
 * invalid packets.
 *
 * @param passing the rules that let pass connections which are already allowed
 */
export function limitHooks(passing: readonly Rule[]): readonly Chain[] {
  return hooks("limit", rule(anyFlag("ct state", "established"), accept), passing, "crowded");
}

/** Returns the hooks that slow down new connections of pods while the table is nearly full. @param passing as above */
export function brakeHooks(passing: readonly Rule[]): readonly Chain[] {
  return hooks("brake", rule(not(anyFlag("ct state", "new", "related")), accept), passing, "braked");
}

function hooks(name: string, first: Rule, passing: readonly Rule[], target: string): readonly Chain[] {
  return (["forward", "input"] as const).map((hook) => ({
    name: `${name}_${hook}`,
    base: { type: "filter", hook, priority: PRIORITY, policy: "accept" },
    rules: [first, ...passing, rule(goTo(`${target}_${hook}`))],
  }));
}

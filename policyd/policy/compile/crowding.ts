import type { Selector } from "../../../kernel/nftables/expression.ts";
import { familyWords } from "../../../kernel/nftables/family_words.ts";
import type { Chain, SetDefinition } from "../../../kernel/nftables/object.ts";
import type { Match, Rule, Statement } from "../../../kernel/nftables/statement.ts";
import { accept, anyFlag, dropping, equals, goTo, inSet, not, rule } from "../../../kernel/nftables/statement.ts";
import { FAMILIES } from "./words.ts";

/** The names of the sets, each followed by the family's digit. */
export const CROWDING_SETS = {
  /** Addresses of local pods with too many connections: no further ones begin from them, or from outside to them. */
  crowded: "crowded",
  /** Addresses of local pods that began connections while the table was nearly full, each with its rate; rules write it. */
  begun: "begun",
} as const;

/** Why a rule of this file drops, in its comment. */
export const CrowdingReason = {
  CROWDED: "pod with too many connections",
  BRAKED: "pod that begins connections too fast for a table that is nearly full",
} as const;

/** Before policies judge at -5: a connection that they have allowed passes. */
const PRIORITY = -6;
/** More pods than a node has. */
const MOST_PODS = 4096;
/** An address that began nothing for so long has its whole burst again. */
const KEPT_MILLISECONDS = 10_000;
/**
 * How many connections a pod's address may begin while the table is nearly full, so that the daemon has the time to count: with 50
 * pods that all do so, a tenth of the smallest usual table (131,072) in 130 ms.
 */
const BRAKE = { rate: 2000, burst: 500 } as const;

/** The things that the rules need of the table that they are in. */
export interface CrowdingParts {
  readonly bridge: string;
  /** The name of the sets of addresses whose pods are known, without the family's digit. */
  readonly known: string;
  /** Neighbour discovery and multicast reports: no flow begins by them. */
  readonly neighbours: readonly Rule[];
}

/** The sets of {@link CROWDING_SETS}. */
export function crowdingSets(): readonly SetDefinition[] {
  return FAMILIES.flatMap((family): readonly SetDefinition[] => {
    const key = [familyWords[family].type];
    return [
      { name: `${CROWDING_SETS.crowded}${family}`, key },
      { name: `${CROWDING_SETS.begun}${family}`, key, timeout: "per element", isDynamic: true, size: MOST_PODS },
    ];
  });
}

/** Returns the chains that {@link limitHooks} and {@link brakeHooks} lead to. They cost nothing while there are no such hooks. */
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
      rules: [...crowded("source"), ...crowded("destination", not(fromBridge))],
    },
    // Neighbour discovery is untracked, and its node finds a pod's link by what the pod answers: no flow begins by that.
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
 * Returns the hooks that let no further connection of a pod with too many begin. They are there while there is such a pod. All that
 * belongs to no answered connection is looked at, also what a conntrack helper has announced (related), and invalid packets.
 *
 * @param passing the rules that let pass what was judged before
 */
export function limitHooks(passing: readonly Rule[]): readonly Chain[] {
  return hooks("limit", rule(anyFlag("ct state", "established"), accept), passing, "crowded");
}

/** Returns the hooks that slow new connections of pods down. They are there while the table is nearly full. @param passing as above */
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

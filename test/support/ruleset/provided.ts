import type { Chain, SetDefinition, Table } from "../../../kernel/nftables/model/object.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import { counter, drop, goTo, inSet, jumpTo, returnToCaller, rule } from "../../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../../../policyd/ruleset/desired/desired_element.ts";
import type { ProvidedObjects } from "../../../policyd/ruleset/desired/desired_objects.ts";
import type { Ruleset } from "../../../policyd/ruleset/ruleset.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";
import { sampleAddress } from "./sample.ts";

const policies = { family: "inet", name: "drawbridge-policy" } as const;

/** Returns a table with a verdict map whose elements jump to chains that come and go. */
export function profileTable(options: { readonly revision?: number } = {}): Table {
  return withVersion({
    ...policies,
    sets: [
      { name: "verdicts", key: ["ipv4_addr"], data: "verdict" },
      { name: "known", key: ["ipv4_addr"] },
    ],
    chains: [
      {
        name: "forward",
        base: { type: "filter", hook: "forward", priority: -5 + (options.revision ?? 0), policy: "accept" },
        rules: [rule(inSet("ip saddr", "known"), jumpTo("decide"))],
      },
      { name: "decide", rules: [rule({ kind: "vmap", key: "ip saddr", map: "verdicts" })] },
      { name: "dropped", rules: [rule(counter, drop)] },
    ],
  });
}

/** The number of profiles that share one set of members. */
const SHARING = 5;

/**
 * Returns the sets of a profile: members, which profiles share, ports, and a map of its own whose elements jump to the
 * profile's second chain.
 */
export function profileSets(number: number): readonly SetDefinition[] {
  return [
    { name: `members${Math.floor(number / SHARING)}`, key: ["ipv4_addr"] },
    { name: `ports${number}`, key: ["ipv4_addr", "inet_service"] },
    { name: `parts${number}`, key: ["ipv4_addr"], data: "verdict" },
  ];
}

/** Returns the chains of a profile: the first goes to the second, which refers to a chain of the schema. */
export function profileChains(number: number): readonly Chain[] {
  const [members, ports, parts] = profileSets(number).map(({ name }) => name);
  if (members === undefined || ports === undefined || parts === undefined) throw new Error("three sets");
  const portRule = rule(inSet(concatenation("ip daddr", "tcp dport"), ports), counter, returnToCaller);
  return [
    {
      name: `first${number}`,
      rules: [
        { ...rule(inSet("ip daddr", members), counter, goTo(`second${number}`)), comment: `profile ${number}` },
        rule({ kind: "vmap", key: "ip daddr", map: parts }),
        rule(goTo(`second${number}`)),
      ],
    },
    { name: `second${number}`, rules: [portRule, rule(goTo("dropped"))] },
  ];
}

/** Returns the objects that a profile provides. */
export function profileObjects(number: number): ProvidedObjects {
  return { table: policies, sets: profileSets(number), chains: profileChains(number) };
}

/** Returns the elements of a profile's sets. */
export function profileClaims(number: number, value: number): readonly DesiredElement[] {
  const [members, ports, parts] = profileSets(number).map(({ name }) => name);
  if (members === undefined || ports === undefined || parts === undefined) throw new Error("three sets");
  const address = sampleAddress(value);
  return [
    { table: policies, set: members, element: { key: [sampleAddress(0x10000 + number)] } },
    { table: policies, set: ports, element: { key: [address, 80] } },
    { table: policies, set: parts, element: { key: [address], data: { kind: "jump", chain: `second${number}` } } },
  ];
}

/** Returns the claim of a pod that has this profile. */
export function podClaims(pod: number, profile: number): readonly DesiredElement[] {
  const key = [sampleAddress(0x20000 + pod)];
  return [
    { table: policies, set: "known", element: { key } },
    { table: policies, set: "verdicts", element: { key, data: { kind: "goto", chain: `first${profile}` } } },
  ];
}

/** Makes a ruleset provide a profile with the elements of its sets. */
export function provideProfile(ruleset: Ruleset, number: number, value = 1): void {
  ruleset.provide(`profile ${number}`, profileObjects(number));
  ruleset.claim(`profile ${number}`, profileClaims(number, value));
}

/** Withdraws a profile. */
export function withdrawProfile(ruleset: Ruleset, number: number): void {
  ruleset.claim(`profile ${number}`, []);
  ruleset.provide(`profile ${number}`, { table: policies, sets: [], chains: [] });
}

/**
 * Makes a ruleset provide profiles, each for the pod of the same number. @param numbers the first one, and the one
 * after the last
 */
export function provideJudged(ruleset: Ruleset, numbers: readonly [number, number], value?: number): void {
  for (let number = numbers[0]; number < numbers[1]; number++) {
    provideProfile(ruleset, number, value);
    ruleset.claim(`pod ${number}`, podClaims(number, number));
  }
}

/** Withdraws profiles and their pods. */
export function withdrawJudged(ruleset: Ruleset, numbers: readonly [number, number]): void {
  for (let number = numbers[0]; number < numbers[1]; number++) {
    withdrawProfile(ruleset, number);
    ruleset.claim(`pod ${number}`, []);
  }
}

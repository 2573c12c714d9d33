import { formatCidr, networkAddress } from "../../../../../kernel/ip/cidr.ts";
import { randomFrom } from "../../../random.ts";
import { FAMILIES, textsOf } from "../place.ts";
import type { PolicyLab } from "../policy_lab.ts";
import type { GeneratedCase } from "./generated_case.ts";
import { conflictCases } from "./conflict_cases.ts";
import { peerCases } from "./peer_cases.ts";
import { PORT_CASES } from "./port_cases.ts";

/** Returns all 198 cases, with the addresses that the pods have in a lab. */
export function generatedCases(lab: PolicyLab): readonly GeneratedCase[] {
  return [
    ...peerCases({ wide: around(lab, "z/c", { 4: 24, 6: 64 }), narrow: around(lab, "z/c", { 4: 30, 6: 126 }) }),
    ...PORT_CASES,
    ...conflictCases({ xb: hostPrefixes(lab, "x/b"), yc: hostPrefixes(lab, "y/c") }),
  ];
}

/** Returns a random choice of cases, at least one of each group. */
export function chosen(all: readonly GeneratedCase[], count: number, seed: number): readonly GeneratedCase[] {
  const random = randomFrom(seed);
  const shuffled = all
    .map((one) => ({ one, order: random() }))
    .toSorted((a, b) => a.order - b.order)
    .map(({ one }) => one);
  const first = [...Map.groupBy(shuffled, ({ group }) => group).values()].flatMap(([one]) =>
    one === undefined ? [] : [one],
  );
  return [...first, ...shuffled.filter((one) => !first.includes(one))].slice(0, count);
}

function around(lab: PolicyLab, pod: string, lengths: Readonly<Record<4 | 6, number>>): readonly [string, string] {
  const { addresses } = lab.place(pod);
  const [v4, v6] = FAMILIES.map((family) => {
    const prefixLength = lengths[family];
    return formatCidr({ address: networkAddress({ address: addresses[family], prefixLength }), prefixLength });
  });
  return [v4 ?? "", v6 ?? ""];
}

function hostPrefixes(lab: PolicyLab, pod: string): readonly [string, string] {
  const [v4, v6] = textsOf(lab.place(pod));
  return [`${v4}/32`, `${v6}/128`];
}

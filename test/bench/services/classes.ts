import type { Lab } from "../../lab/lab.ts";
import { median } from "../statistics.ts";
import { type BenchService, benchService, changesOf, sliceChange, withFirstReplaced } from "./cluster.ts";
import type { Ours } from "./ours.ts";
import { compared, type ServicesRow } from "./row.ts";
import { TreeVariant } from "./tree_variant.ts";
import { Wire } from "./wire.ts";

/**
 * Ways to assign Services to maps by their number of endpoints: an exact map for some numbers, else the next power of
 * two.
 */
const VARIANTS: readonly (readonly [name: string, exact: readonly number[], drawn: readonly number[]])[] = [
  ["exact to 4", [1, 2, 3, 4], powers(8)],
  ["exact to 8", [1, 2, 3, 4, 5, 6, 7, 8], powers(16)],
  ["powers of two", [1], powers(2)],
];

/** The numbers of endpoints in a cluster, most of which are small. */
const PRESENT = [1, 1, 1, 2, 2, 3, 3, 3, 4, 5, 6, 8, 12];
const SERVICES = 10_000;
const COUNTS = [1, 2, 3, 4, 5, 6, 7, 8, 12, 50];
const PACKETS = 60;

interface Variant {
  readonly name: string;
  readonly ours: Ours;
  readonly wire: Wire;
  readonly asked: ReadonlyMap<number, BenchService>;
}

/** Compares first packets and changes by classes: the present classes first, the others beside them. */
export async function classes(lab: Lab, rounds: number): Promise<readonly ServicesRow[]> {
  const variants: Variant[] = [];
  for (const [name, exact, drawn] of VARIANTS) variants.push(await loaded(lab, name, exact, drawn));
  const [inForce, ...others] = variants;
  if (inForce === undefined) return [];
  const rows = COUNTS.flatMap((count) => {
    const packets = turns(variants, rounds, ({ wire, asked }): number => {
      const service = asked.get(count);
      return service === undefined ? Number.NaN : median(wire.firstPackets(service, PACKETS));
    });
    const pairsOf = (values: ReadonlyMap<Variant, readonly number[]>, other: Variant) =>
      (values.get(inForce) ?? []).map((mine, round) => ({
        ours: mine,
        peer: values.get(other)?.[round] ?? Number.NaN,
      }));
    return others.flatMap((other) => [
      compared(`${inForce.name}: first packet, ${count} endpoints`, "µs", other.name, pairsOf(packets, other)),
      compared(`${inForce.name}: three changes, ${count} endpoints`, "elements", other.name, [
        { ours: touched(inForce, count), peer: touched(other, count) },
      ]),
    ]);
  });
  for (const { ours, wire } of variants) {
    wire[Symbol.dispose]();
    ours[Symbol.dispose]();
  }
  return rows;
}

async function loaded(lab: Lab, name: string, exact: readonly number[], drawn: readonly number[]): Promise<Variant> {
  using tree = new TreeVariant(exact, drawn);
  const { Ours: VariantOfOurs } = await tree.ours();
  const node = lab.namespace(name.replaceAll(" ", "-"));
  const ours = new VariantOfOurs(node);
  const counts = Array.from({ length: SERVICES }, (_, number) => PRESENT[number % PRESENT.length] ?? 1);
  ours.load(changesOf(counts.map((count, number) => benchService(number, count))));
  const asked = new Map(COUNTS.map((count) => [count, Wire.served(benchService(SERVICES + count, count))]));
  ours.change(changesOf([...asked.values()]));
  return { name, ours, wire: new Wire(lab, node), asked };
}

/** Replaces an endpoint and adds one, and undoes both changes. @returns the number of elements that were touched */
function touched({ ours, asked }: Variant, count: number): number {
  const service = asked.get(count);
  if (service === undefined) return Number.NaN;
  const steps = [
    withFirstReplaced(service, 0),
    { ...service, endpoints: [...withFirstReplaced(service, 0).endpoints, "10.251.0.1"] },
    service,
  ];
  return steps.reduce((sum, step) => sum + ours.change([sliceChange(step)]).elements, 0);
}

/** Runs each variant once a round, in rounds that begin with another one each. */
function turns(
  variants: readonly Variant[],
  rounds: number,
  measure: (variant: Variant) => number,
): ReadonlyMap<Variant, readonly number[]> {
  const values = new Map(variants.map((variant): [Variant, number[]] => [variant, []]));
  for (let round = 0; round < rounds; round++) {
    for (let turn = 0; turn < variants.length; turn++) {
      const variant = variants[(round + turn) % variants.length];
      if (variant !== undefined) values.get(variant)?.push(measure(variant));
    }
  }
  return values;
}

function powers(from: number): readonly number[] {
  const found: number[] = [];
  for (let modulus = from; modulus <= 16_384; modulus *= 2) found.push(modulus);
  return found;
}

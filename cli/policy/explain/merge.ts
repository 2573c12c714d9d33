import { FAMILIES } from "../../../kernel/ip/address.ts";
import type { Case } from "./explanation.ts";
import type { EvaluatedWay } from "./evaluate_way.ts";
import type { ConnectionPath } from "./paths/connection_path.ts";

/** The result for one way. */
export interface Outcome {
  readonly way: ConnectionPath;
  readonly evaluated: EvaluatedWay;
  /** The part of the question that it answers, with ports as the destination has them. */
  readonly connections: readonly string[];
}

/** Merges outcomes with equal answers and reasons, in the order in which they are first found. */
export function mergeOutcomes(outcomes: readonly Outcome[]): readonly Case[] {
  const alike = Map.groupBy(outcomes, ({ evaluated: { reasons, source }, connections }) =>
    JSON.stringify([reasons, source, connections]),
  );
  return [...alike.values()].flatMap(casesOf);
}

/** Returns equal outcomes as the fewest cases in which every source stands for every destination. */
function casesOf(outcomes: readonly Outcome[]): readonly Case[] {
  const pairs = Map.groupBy(outcomes, ({ evaluated: { from, to } }) => JSON.stringify([from, to]));
  const rows = new Map<string, { readonly to: string[]; readonly all: Outcome[] }>();
  for (const all of pairs.values()) {
    const [first] = all;
    if (first === undefined) continue;
    const key = JSON.stringify([first.evaluated.from, familiesOf(all)]);
    const row = rows.get(key) ?? { to: [], all: [] };
    row.to.push(first.evaluated.to);
    row.all.push(...all);
    rows.set(key, row);
  }
  const blocks = Map.groupBy(rows.values(), ({ to, all }) => JSON.stringify([to, familiesOf(all)]));
  return [...blocks.values()].flatMap((block) => caseOf(block.flatMap(({ all }) => all)) ?? []);
}

function caseOf(outcomes: readonly Outcome[]): Case | undefined {
  const [first] = outcomes;
  if (first === undefined) return undefined;
  const { reasons, source } = first.evaluated;
  const evaluated = outcomes.map((outcome) => outcome.evaluated);
  const nodes = [...new Set(evaluated.flatMap(({ maskedBy }) => maskedBy ?? []))].sort();
  return {
    allowed: reasons.allowed,
    from: [...new Set(evaluated.map(({ from }) => from))],
    to: [...new Set(evaluated.map(({ to }) => to))],
    families: familiesOf(outcomes),
    connections: first.connections,
    source: source === undefined ? null : { ...source, nodes },
    stopped: reasons.stopped,
    ...(reasons.unknown === undefined ? {} : { unknown: reasons.unknown }),
    egress: reasons.egress,
    ingress: reasons.ingress,
  };
}

function familiesOf(outcomes: readonly Outcome[]): Case["families"] {
  const found = new Set(outcomes.map(({ evaluated }) => evaluated.family));
  return FAMILIES.filter((family) => found.has(family)).map((family) => `IPv${family}` as const);
}

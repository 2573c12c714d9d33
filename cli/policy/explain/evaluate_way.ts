import { type Family, FAMILIES } from "../../../kernel/ip/address.ts";
import { evaluatePolicy } from "../../../objects/semantics/policies/evaluate.ts";
import type { ImpossibleFlow, EvaluatedFlow } from "../../../objects/semantics/policies/verdict.ts";
import { type Cluster, UNKNOWN_NODE } from "../../cluster/cluster.ts";
import { type SourceReport, sourceReport } from "./service_report.ts";
import { hostName } from "../../cluster/find_end.ts";
import { endReport } from "./end_report.ts";
import type { EndReport, Case } from "./explanation.ts";
import type { Arrival, ConnectionPath } from "./paths/connection_path.ts";

/** The verdict on one way without the names of its ends, so that ways with the same reasons have equal values. */
export type Reasons = Pick<Case, "allowed" | "stopped" | "unknown" | "egress" | "ingress">;

/** A way and its verdict. */
interface EvaluatedWay {
  readonly from: string;
  readonly to: string;
  /** Undefined where no address is known. */
  readonly family: Family | undefined;
  readonly source: SourceReport | undefined;
  /** The node whose address the destination sees. */
  readonly maskedBy: string | undefined;
  readonly reasons: Reasons;
  /** The evaluator's verdicts at the source and at the destination; empty where it was not called. */
  readonly flows: readonly EvaluatedFlow[];
}

/** Evaluates one way. @param target the destination's name, for ways that reach none */
export function evaluateWay(cluster: Cluster, way: ConnectionPath, target: string): EvaluatedWay {
  const base = { from: hostName(way.source), family: undefined, source: undefined, maskedBy: undefined, flows: [] };
  if (way.arrival !== undefined) return { ...base, ...evaluateArrival(cluster, way.arrival, way) };
  const sent = way.steps.at(-1)?.packet;
  const isKnown = sent !== undefined && cluster.placeholderAddresses.ownerOf(sent.destination) === undefined;
  const reasons = {
    ...NOTHING_ASKED,
    stopped: way.stopped ?? stepText(way),
    ...(way.isUnknown === true ? { unknown: true as const } : {}),
  };
  return { ...base, to: target, family: isKnown ? way.family : undefined, reasons };
}

type EvaluatedArrival = Pick<EvaluatedWay, "to" | "reasons"> & Partial<EvaluatedWay>;

function evaluateArrival(
  { index, manifests }: Cluster,
  arrival: Arrival,
  { source, steps }: ConnectionPath,
): EvaluatedArrival {
  // The last one whose Services the connection passed.
  const node = steps.at(-1)?.node;
  const { destination, egress, ingress, masquerade } = arrival;
  const to = hostName(destination);
  const atSource = evaluatePolicy(index, egress);
  const atDestination = egress === ingress ? atSource : evaluatePolicy(index, ingress);
  if (atSource.kind === "impossible") return { to, reasons: impossible(atSource) };
  if (atDestination.kind === "impossible") return { to, reasons: impossible(atDestination) };
  const isKnown = [atSource.source, atSource.destination].some(({ address }) => address !== undefined);
  const isMasked = masquerade?.masqueraded === true && node !== undefined && node !== UNKNOWN_NODE;
  return {
    to,
    family: isKnown ? atSource.family : undefined,
    source: masquerade && sourceReport(masquerade),
    maskedBy: isMasked ? `node/${node}` : undefined,
    reasons: {
      allowed: atSource.egress.isAllowed && atDestination.ingress.isAllowed,
      stopped: null,
      egress: endReport(manifests, "egress", atSource.egress, sentTo(arrival)),
      ingress: endReport(
        manifests,
        "ingress",
        atDestination.ingress,
        source.type === "node" ? null : seenFrom(arrival),
      ),
    },
    flows: [atSource, atDestination],
  };
}

const NOTHING_ASKED: Reasons = Object.freeze({ allowed: false, stopped: null, egress: null, ingress: null });

/** Returns how a Service ended the connection. */
function stepText({ steps }: ConnectionPath): string | null {
  const verdict = steps.at(-1)?.verdict;
  if (verdict?.kind === "reject") return "refused by the Service";
  return verdict?.kind === "drop" ? "dropped by the Service" : null;
}

/** Returns what the source's policies see as destination, where another node's Service translates it later. */
function sentTo({ via, egress }: Arrival): string | null {
  if (via === undefined) return null;
  return `to ${hostName(via)}${egress.port === undefined ? "" : ` port ${egress.port}`}/${egress.protocol}`;
}

/** Returns the source that the destination's policies see, where its address was replaced on the way. */
function seenFrom({ ingress, masquerade }: Arrival): string | null {
  if (masquerade?.masqueraded !== true || masquerade.because === "hairpin") return null;
  return ingress.source.type === "node"
    ? "endpoint on another node: seen from the node that puts its address in"
    : "endpoint on the same node: seen from the source itself";
}

function impossible({ reason }: ImpossibleFlow): Reasons {
  const because =
    reason.type === "no common family"
      ? "the ends have no addresses of one family"
      : `${reason.pod} has finished, and its address may be another pod's`;
  return { ...NOTHING_ASKED, stopped: `cannot be sent: ${because}` };
}

/** Returns the reasons without the nearest rules. */
export function withoutNearest({ egress, ingress, ...rest }: Reasons): Reasons {
  return { ...rest, egress: egress && endWithout(egress), ingress: ingress && endWithout(ingress) };
}

function endWithout({ shadow, ...end }: EndReport): EndReport {
  return { ...end, nearest: null, shadow: shadow && { ...shadow, nearest: null } };
}

/** The result for one way. */
export interface Outcome {
  readonly way: ConnectionPath;
  readonly evaluated: EvaluatedWay;
  /** The part of the question that it answers, with ports as the destination has them. */
  readonly connections: readonly string[];
  /** The outcomes for the parts of several ports whose reasons are equal. */
  readonly each?: readonly Outcome[];
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

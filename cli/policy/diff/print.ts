import { counted } from "../../output/text.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import { foldLine } from "../../output/fold.ts";
import type { Edge, Graph } from "../../output/graph.ts";
import type { Style } from "../../style.ts";
import type { OneSided } from "./end_class.ts";
import { EFFECTS, type PairChange } from "./pair_change.ts";
import type { WayChange } from "./ways/change.ts";
import { wayEdges, wayObject, waysText } from "./ways/print.ts";
import type { Witness } from "./witness.ts";
import { exampleText, reasonLines, witnessObject } from "./witness_text.ts";

/** A change with its witness, either merged or between two groups. */
export interface ReportedChange {
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly change: PairChange;
  readonly pairs: number;
  readonly of: number;
  readonly witness: Witness;
}

/** A diff, ready to be printed. */
export interface DiffReport {
  readonly changes: readonly ReportedChange[];
  /** The ways in by Ingresses and routes that differ. */
  readonly ways: readonly WayChange[];
  readonly appeared: OneSided;
  readonly gone: OneSided;
}

const NO_DIFFERENCE = "no difference in what may be sent\n";

/** The most names of a list that are shown to people. */
const MOST_NAMES = 8;

/** Yields the diff for people, each change with its witness. */
export function* diffText(
  { changes, ways, appeared, gone }: DiffReport,
  style: Style,
  columns: number,
): Generator<string> {
  if (changes.length + ways.length === 0) yield NO_DIFFERENCE;
  for (const one of changes) {
    const { change, witness } = one;
    const word = (change.type === "added" ? style.good : style.bad)(EFFECTS[change.type]);
    yield foldLine(`${word}${causeText(change)} ${printable(headText(one))}`, columns, 0, 2);
    yield foldLine(printable(pairsText(one)), columns, 2, 4);
    for (const line of reasonLines(witness)) yield foldLine(printable(line), columns, 4, 6);
  }
  yield* waysText(ways, style, columns);
  for (const { what, side } of [
    { what: "new", side: appeared },
    { what: "gone", side: gone },
  ]) {
    const lines = [
      ...(side.pods.length === 0 ? [] : [`${what}: ${names(side.names)} (${counted(side.pods.length, "pod")})`]),
      ...(side.nodes.length === 0
        ? []
        : [`${what}, and not compared: ${names(side.nodes.map((name) => `node/${name}`))}`]),
    ];
    for (const line of lines) yield style.faint(foldLine(printable(line), columns, 0, 2));
  }
}

/** Returns a change in words, without colour and unfolded: what changes, and its witness with the reasons. */
export function changeLines(one: ReportedChange): {
  readonly word: string;
  readonly head: string;
  readonly lines: readonly string[];
} {
  const { change, witness } = one;
  return {
    word: `${EFFECTS[change.type]}${causeText(change)}`,
    head: headText(one),
    lines: [pairsText(one), ...reasonLines(witness)],
  };
}

function headText({ from, to, change }: ReportedChange): string {
  return `${names(from)} -> ${names(to)}: ${connectionsText(change)}`;
}

function pairsText({ pairs, of, witness }: ReportedChange): string {
  return `${pairs} of ${counted(of, "pair")}, such as ${exampleText(witness)}`;
}

/** Returns a note that a workload is new or gone, since then no policy need have changed. */
function causeText({ cause }: PairChange): string {
  return cause === "difference" ? "" : ` (${CAUSES[cause]})`;
}

const CAUSES = { appeared: "new workload", gone: "removed workload" } as const;

function names(all: readonly string[]): string {
  return shortList(all, MOST_NAMES);
}

function connectionsText({ text, family }: PairChange): string {
  return `${text.replaceAll(",", ", ")}${family === undefined ? "" : ` (IPv${family})`}`;
}

/** Returns the object that docs/cli.md describes. */
export function diffObject({ changes, ways, appeared, gone }: DiffReport): object {
  return {
    changes: changes.map(({ from, to, change, pairs, of, witness }) => ({
      change: change.type,
      ...(change.cause === "difference" ? {} : { workload: workloadText(change) }),
      from,
      to,
      connections: change.text.split(","),
      ...(change.family === undefined ? {} : { family: familyText(change) }),
      pairs,
      of,
      witness: witnessObject(witness),
    })),
    waysIn: ways.map(wayObject),
    pods: { appeared: appeared.pods, gone: gone.pods },
    nodes: { appeared: appeared.nodes, gone: gone.nodes },
  };
}

/** Returns whether the cause is a new or removed workload; empty for other causes. */
function workloadText({ cause }: PairChange): string {
  return cause === "difference" ? "" : cause === "appeared" ? "new" : "removed";
}

function familyText({ family }: PairChange): string | undefined {
  return family === undefined ? undefined : `IPv${family}`;
}

/** Returns the changes as arrows, dashed for removed connections. */
export function diffGraph({ changes, ways }: DiffReport): Graph {
  const ofPairs = changes.flatMap(({ from, to, change }): readonly Edge[] =>
    from.flatMap((source) =>
      to.map((destination) => ({
        from: graphName(source),
        to: graphName(destination),
        label: `${change.type === "added" ? "+" : "-"} ${connectionsText(change)}${causeText(change)}`,
        isPartly: change.type === "removed",
      })),
    ),
  );
  const ofWays = wayEdges(ways).map((edge) => ({ ...edge, from: graphName(edge.from), to: graphName(edge.to) }));
  const edges = [...ofPairs, ...ofWays];
  return { names: [...new Set(edges.flatMap((edge) => [edge.from, edge.to]))].sort(), edges };
}

/** Returns the name in a graph, in which the part before the first "/" is the box. */
function graphName(name: string): string {
  return name.replace(/^outside /, "outside/");
}

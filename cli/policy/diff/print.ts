import { counted } from "../../output/text.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import { foldLine } from "../../output/fold.ts";
import type { Edge, Graph } from "../../output/graph.ts";
import type { Style } from "../../io.ts";
import type { OneSided } from "./end_class.ts";
import { EFFECTS, type PairChange } from "./pair_change.ts";
import { type WayChange, wayInWords, wayObject } from "./ways.ts";
import { type Witness, exampleText, reasonLines, type InWords } from "./witness.ts";

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
  /** The number of changes of pods that the options do not show. */
  readonly hidden: number;
}

/** The most names of a list that are shown to people. */
const MOST_NAMES = 8;

/** Yields the diff for people, each change with its witness. */
export function* diffText(report: DiffReport, style: Style, columns: number): Generator<string> {
  const changes = allInWords(report);
  if (changes.length === 0) yield `${noDifferenceText(report)}\n`;
  for (const { type, word, head, lines } of changes) {
    const [first = "", ...more] = lines.map(printable);
    yield foldLine(`${(type === "added" ? style.good : style.bad)(word)} ${printable(head)}`, columns, 0, 2);
    yield foldLine(first, columns, 2, 4);
    for (const line of more) yield foldLine(line, columns, 4, 6);
  }
  for (const { what, side } of [
    { what: "new", side: report.appeared },
    { what: "gone", side: report.gone },
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

/** Returns the words for a diff that shows no change. */
export function noDifferenceText({ hidden }: Pick<DiffReport, "hidden">): string {
  const others = hidden === 0 ? "" : `, except for ${counted(hidden, "change")} of pods that are not shown`;
  return `no difference in what may be sent${others}`;
}

/** Returns all changes in words, those of ways in last. */
export function allInWords({ changes, ways }: DiffReport): readonly InWords[] {
  return [...changes.map(changeInWords), ...ways.map(wayInWords)];
}

/** Returns a change of pairs in words. */
export function changeInWords(one: ReportedChange): InWords {
  const { change, from, to, witness } = one;
  const connections = connectionsText(change);
  return {
    type: change.type,
    word: `${EFFECTS[change.type]}${causeText(change)}`,
    head: `${names(from)} -> ${names(to)}: ${connections}`,
    lines: [pairsText(one), ...reasonLines(witness)],
    from,
    to,
    connections,
    label: `${connections}${causeText(change)}`,
  };
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
      witness,
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
export function diffGraph(report: DiffReport): Graph {
  const edges = allInWords(report).flatMap(({ type, from, to, label }): readonly Edge[] => {
    if (label === undefined) return [];
    const arrow = { label: `${type === "added" ? "+" : "-"} ${label}`, isPartly: type === "removed" };
    return from.flatMap((source) =>
      to.map((destination) => ({ from: graphName(source), to: graphName(destination), ...arrow })),
    );
  });
  return { names: [...new Set(edges.flatMap((edge) => [edge.from, edge.to]))].sort(), edges };
}

/** Returns the name in a graph, in which the part before the first "/" is the box. */
function graphName(name: string): string {
  return name.replace(/^outside /, "outside/");
}

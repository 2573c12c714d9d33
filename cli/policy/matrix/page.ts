import type { Host, HostsEnd } from "../../cluster/find_end.ts";
import type { CellState, HeatCell, PageContent } from "../../output/page/page.ts";
import { clusterOf } from "../../cluster/cluster.ts";
import { styleOf } from "../../io.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { ExplainContext } from "../explain/context.ts";
import { explain } from "../explain/explain.ts";
import { explanationText, wayInText } from "../explain/print.ts";
import { explainWaysIn } from "../explain/ways_in.ts";
import type { PolicyInput } from "../policy_input.ts";
import type { WayInGroup } from "./way_in_end.ts";
import { cellsOf, cellText, isPartly } from "./cell.ts";
import type { MatrixEnd } from "./end.ts";
import type { Asked, Matrix } from "./matrix.ts";

/** The most rows or columns of a page; of more workloads, namespaces are its rows. */
export const MOST_NAMES = 600;
/** The most explained cells: each takes some milliseconds and a kilobyte. */
const MOST_EXPLAINED = 4000;
const COLUMNS = 60;
/** The most pods of a workload in an explanation. */
const MOST_PODS = 2;

/** Returns a page for a matrix: its cells as a heat map, each with the explanation of `policy explain`. */
export function matrixPage(matrix: Matrix, asked: Asked, read: PolicyInput): PageContent {
  const { sources, destinations } = matrix;
  const context = new ExplainContext(clusterOf(read.manifests, read.options), read);
  const [rows, columns] = [sources, destinations].map((ends) => new Map(ends.map((end, number) => [end, number])));
  const textOf = cellText(asked.ports);
  const all = [...cellsOf(matrix, asked.isAllowedOnly, textOf)];
  const isExplained = all.length <= MOST_EXPLAINED;
  const cells = all.map(({ from, to, connections }): HeatCell => {
    const text = textOf(connections);
    const why = isExplained ? explanationOf(context, from, to) : "";
    return { row: rows?.get(from) ?? 0, column: columns?.get(to) ?? 0, state: stateOf(text), text, why };
  });
  const present = new Set(cells.map(({ state }) => state));
  return {
    title: "Traffic that policies allow",
    facts: [
      "As far as NetworkPolicies and ClusterNetworkPolicies go; packets to a Service are judged as those to its pods.",
      ...(isExplained ? [] : ["There are too many cells for an explanation in each: the command line has them."]),
    ],
    heat: { rows: sources.map(({ name }) => name), columns: destinations.map(({ name }) => name), cells },
    legend: LEGEND.filter(([state]) => present.has(state)),
    changes: [],
  };
}

const LEGEND: PageContent["legend"] = [
  ["all", "everything"],
  ["ports", "some ports"],
  ["part", "only some pods, or one family"],
  ["none", "nothing"],
];

function stateOf(text: string): CellState {
  if (text === "") return "none";
  if (isPartly(text)) return "part";
  return text === "all" ? "all" : "ports";
}

/** Returns an explanation; empty for pods that do not exist yet. */
function explanationOf(context: ExplainContext, from: MatrixEnd, to: MatrixEnd): string {
  if (from.wayIn !== undefined) return wayInExplanation(context, from.wayIn, to);
  const source = endOf(from, undefined);
  const destination = endOf(to, from === to ? source : undefined);
  if (source === undefined || destination === undefined) return "";
  const explanation = explain(context, { from: source, to: destination, traffic: undefined });
  const asked = source.hosts.length * destination.hosts.length;
  const total = Math.max(1, from.pods.length) * Math.max(1, to.pods.length);
  const remark = asked < total ? `\nAsked about ${asked} of ${total} pairs of pods.\n` : "";
  return explanationText(explanation, styleOf({ hasColour: false }), COLUMNS) + remark;
}

/** Returns both hops of each way that leads to some pods; empty where none does. */
function wayInExplanation(context: ExplainContext, { ways }: WayInGroup, to: MatrixEnd): string {
  const destination = endOf(to, undefined);
  if (destination === undefined) return "";
  const places = new Set(ways.map(({ placed }) => `${placed.file}:${placed.line}`));
  const from: HostsEnd = {
    type: "address",
    name: "outside",
    hosts: [{ type: "outside", address: SOMEBODY }],
    address: SOMEBODY,
  };
  const found = explainWaysIn(context, { from, to: destination, traffic: undefined });
  return found
    .filter(({ file, line }) => places.has(`${file}:${line}`))
    .map((way) => wayInText(way, styleOf({ hasColour: false }), COLUMNS))
    .join("\n");
}

/** A documentation address (RFC 5737), for a client outside. */
const SOMEBODY = parseAddress("203.0.113.1");

/** Returns an outside address, or a group's first pods; others, if possible, where it is also the other end. */
function endOf({ name, kind, pods, regions }: MatrixEnd, other: HostsEnd | undefined): HostsEnd | undefined {
  const [first] = regions;
  if (first !== undefined) {
    const hosts = regions.map(({ representative: address, asked }) => ({
      type: "outside" as const,
      address,
      ...(asked === undefined ? {} : { asked }),
    }));
    return { type: "address", name, hosts, address: first.representative };
  }
  if (kind === "new pod") return undefined;
  const taken = new Set(other?.hosts.slice(0, 1).flatMap((host) => (host.type === "pod" ? [host.pod.key] : [])));
  const free = pods.filter(({ key }) => pods.length === 1 || !taken.has(key)).slice(0, MOST_PODS);
  const [host, ...hosts] = free.map((pod): Host => ({ type: "pod", pod }));
  if (host === undefined) return undefined;
  return { type: pods.length === 1 ? "pod" : "workload", name, hosts: [host, ...hosts], address: undefined };
}

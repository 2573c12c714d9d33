import { type Address, formatAddress } from "../../../kernel/ip/address.ts";
import { evaluatePolicy, isAllowed } from "../../../objects/semantics/policies/evaluate.ts";
import type { Direction } from "../../../objects/semantics/policies/flow.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { EndVerdict } from "../../../objects/semantics/policies/verdict.ts";
import { groupName } from "../../cluster/group.ts";
import type { Sides } from "../diff/end_class.ts";
import { type Connection, flowOf, remembered } from "./connection.ts";
import { entryAt } from "./peer.ts";

/** The connections of one workload to another by one protocol and port that a change would cut. */
export interface Cut {
  readonly source: string;
  readonly destination: string;
  readonly protocol: Connection["protocol"];
  readonly port: number | undefined;
  /** At least one. */
  readonly connections: readonly Connection[];
  /** The ends that would deny them, with the reasons. */
  readonly denials: readonly Denial[];
}

/** An end of a connection that denies it after the change. */
export interface Denial {
  readonly direction: Direction;
  readonly verdict: EndVerdict;
}

/** The effect of a change on existing connections. */
export interface Forecast {
  /** The number of connections. */
  readonly judged: number;
  /** Whether any connection or denied flow has a pod at an end: of others policies say nothing. */
  readonly hasPods: boolean;
  /** The number of those that policies deny already; a node has cut these or is cutting them. */
  readonly deniedBefore: number;
  readonly cuts: readonly Cut[];
  readonly openings: readonly Opening[];
}

/** Flows between two workloads, with one protocol and port, that policies deny and a change would allow. */
export type Opening = Omit<Cut, "connections" | "denials">;

/**
 * Returns which existing connections a change would cut, and which denied flows it would allow.
 *
 * @param denied flows that were seen, and that policies denied
 */
export function forecast(
  { before, after }: Sides,
  connections: readonly Connection[],
  denied: readonly Connection[] = [],
): Forecast {
  const wasAllowed = remembered((connection) => isAllowed(before, flowOf(connection)));
  const denialsAfter = remembered((connection) => denialsOf(after, connection));
  const cuts = new Map<string, Cut & { readonly connections: Connection[] }>();
  let deniedBefore = 0;
  const existing = connections.filter(({ hasEnded = false }) => !hasEnded);
  for (const connection of existing) {
    if (!wasAllowed(connection)) {
      deniedBefore++;
      continue;
    }
    const denials = denialsAfter(connection);
    if (denials === undefined) continue;
    const flow = namedFlow(before, connection);
    const key = [flowKey(flow), ...denials.map(denialKey)].join(" ");
    const cut = cuts.get(key) ?? { ...flow, denials, connections: [] };
    cut.connections.push(connection);
    cuts.set(key, cut);
  }
  const ordered = [...cuts.values()].sort((a, b) => b.connections.length - a.connections.length || compare(a, b));
  const isOpened = (connection: Connection): boolean =>
    !wasAllowed(connection) && denialsAfter(connection) === undefined;
  const openings = new Map(
    [...existing, ...denied].filter(isOpened).map((connection): [string, Opening] => {
      const flow = namedFlow(before, connection);
      return [flowKey(flow), flow];
    }),
  );
  const hasPods = [...existing, ...denied].some(({ source, destination }) =>
    [source, destination].some((address) => entryAt(before, address) !== undefined),
  );
  return { judged: existing.length, hasPods, deniedBefore, cuts: ordered, openings: [...openings.values()] };
}

function namedFlow(index: PolicyIndex, { source, destination, protocol, port }: Connection): Opening {
  return { source: endName(index, source), destination: endName(index, destination), protocol, port };
}

function flowKey({ source, destination, protocol, port }: Opening): string {
  return [source, destination, protocol, port ?? ""].join(" ");
}

/** Returns the workload, the node or the outside address that an address stands for. */
export function endName(index: PolicyIndex, address: Address): string {
  const owner = index.owners.get(address)?.[0];
  if (owner?.type === "node") return `node/${owner.name}`;
  const entry = entryAt(index, address);
  return entry === undefined ? formatAddress(address) : groupName(entry.pod, "workload");
}

/** Returns the ends that deny a connection; undefined where it is allowed. */
function denialsOf(index: PolicyIndex, connection: Connection): readonly Denial[] | undefined {
  const flow = flowOf(connection);
  if (isAllowed(index, flow)) return undefined;
  const verdict = evaluatePolicy(index, flow);
  if (verdict.kind === "impossible") return [];
  return (["egress", "ingress"] as const)
    .map((direction) => ({ direction, verdict: verdict[direction] }))
    .filter(({ verdict: end }) => !end.isAllowed);
}

/** Returns a text that denials by the same rule or policies share; one workload's connections may have several. */
function denialKey({ direction, verdict: { decision, isolatedBy } }: Denial): string {
  if (decision.type !== "cluster rule") return `${direction} ${isolatedBy.join(",")}`;
  return `${direction} ${decision.rule.action} ${decision.rule.policy} ${decision.rule.rule}`;
}

function compare(a: Cut, b: Cut): number {
  const text = ({ source, destination, protocol, port }: Cut): string =>
    [source, destination, protocol, String(port ?? "").padStart(5, "0")].join(" ");
  return text(a) < text(b) ? -1 : 1;
}

import type { PortRange } from "../../../kernel/ip/port_range.ts";
import type { Pod, Protocol } from "../../../objects/model.ts";
import type { Direction } from "../../../objects/semantics/policies/flow.ts";
import type { IndexedRule, PortPattern } from "../../../objects/semantics/policies/indexed_policy.ts";
import { fitsPeer, flowsToMatch, isNamed } from "../../../objects/semantics/policies/match.ts";
import type { ResolvedEnd, ResolvedFlow } from "../../../objects/semantics/policies/party.ts";
import type { ConnectionAlgebra } from "./algebra.ts";
import { type ConnectionSet, EVERYTHING, FIRST_PORT, LAST_PORT, merged, NOTHING, ofPorts } from "./connection_set.ts";

/** The results for a list of ports, by the named ports of the destination. */
interface KnownPorts {
  readonly hasNames: boolean;
  readonly sets: Map<string, ConnectionSet>;
}

/** Computes the connections of a flow's ends that match a rule: all that `matchRule` matches. */
export class RuleConnections {
  readonly #algebra: ConnectionAlgebra;
  readonly #byPorts = new Map<readonly PortPattern[], KnownPorts>();
  readonly #named = new WeakMap<Pod, string>();

  constructor(algebra: ConnectionAlgebra) {
    this.#algebra = algebra;
  }

  of(rule: IndexedRule, direction: Direction, flow: ResolvedFlow): ConnectionSet {
    let sum = NOTHING;
    for (const one of flowsToMatch(rule, direction, flow)) {
      sum = this.#algebra.union(sum, this.#ofFlow(rule, direction, one));
    }
    return sum;
  }

  #ofFlow({ peers, ports }: IndexedRule, direction: Direction, { source, destination }: ResolvedFlow): ConnectionSet {
    const other = direction === "egress" ? destination : source;
    const isPeer = peers === undefined || peers.some((peer) => fitsPeer(peer, other));
    return isPeer ? this.#ofPorts(ports, destination) : NOTHING;
  }

  #ofPorts(ports: readonly PortPattern[] | undefined, to: ResolvedEnd): ConnectionSet {
    if (ports === undefined) return EVERYTHING;
    let known = this.#byPorts.get(ports);
    if (known === undefined) {
      known = { hasNames: ports.some(({ port }) => typeof port === "string"), sets: new Map() };
      this.#byPorts.set(ports, known);
    }
    const names = known.hasNames ? this.#namesAt(to) : "";
    const before = known.sets.get(names);
    if (before !== undefined) return before;
    const set = this.#algebra.same(connectionsOfPorts(ports, to));
    known.sets.set(names, set);
    return set;
  }

  #namesAt(end: ResolvedEnd): string {
    const pods = [end, ...end.others].flatMap(({ pod }) => pod ?? []);
    return pods.map((pod) => this.#namesOf(pod)).join("\n");
  }

  #namesOf(pod: Pod): string {
    const known = this.#named.get(pod);
    if (known !== undefined) return known;
    const names = JSON.stringify(pod.ports.map(({ name, protocol, port }) => [name, protocol, port]));
    this.#named.set(pod, names);
    return names;
  }
}

function connectionsOfPorts(patterns: readonly PortPattern[], destination: ResolvedEnd): ConnectionSet {
  const rangesOf = (protocol: Protocol): readonly PortRange[] =>
    merged(patterns.flatMap((pattern) => rangesOfPattern(pattern, protocol, destination)));
  return ofPorts(rangesOf, false);
}

/** Returns the ports of a protocol that match a pattern: those for which `fitsPort` holds. */
function rangesOfPattern(
  { protocol: wanted, port, endPort }: PortPattern,
  protocol: Protocol,
  end: ResolvedEnd,
): readonly PortRange[] {
  if (wanted !== undefined && wanted !== protocol) return [];
  if (port === undefined) return [{ first: FIRST_PORT, last: LAST_PORT }];
  if (typeof port === "number") return [{ first: port, last: endPort ?? port }];
  const named = (end.pod?.ports ?? []).filter(
    (one) => one.protocol === protocol && isNamed(end, { ...one, name: port }),
  );
  return named.map((one) => ({ first: one.port, last: one.port }));
}

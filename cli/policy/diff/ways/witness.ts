import type { Pod } from "../../../../objects/model.ts";
import { evaluatePolicy } from "../../../../objects/semantics/policies/evaluate.ts";
import type { FlowEnd, Traffic } from "../../../../objects/semantics/policies/flow.ts";
import { familiesOf } from "../../../../objects/semantics/policies/party.ts";
import { podClasses } from "../../../../objects/semantics/policies/pod_class.ts";
import type { PolicyIndex } from "../../../../objects/semantics/policies/policy_index.ts";
import type { PolicyVerdict } from "../../../../objects/semantics/policies/verdict.ts";
import { type ConnectionSet, FIRST_PORT, includes, isEmpty } from "../../connections/connection_set.ts";
import type { ChangeType } from "../pair_change.ts";
import { changedEnds, endText, type Locations, oneSidedEnds, type Witness } from "../witness.ts";
import { type EvaluatedRequests, otherOf, podsOf, type WaySides } from "./side.ts";

/** The most pods of a controller or a Service of which each is tried. */
const MOST_TRIED = 16;

/** A way on both sides, or on the one that has or judges it, and what changes. */
export interface ChangedWay {
  readonly before?: EvaluatedRequests;
  readonly after?: EvaluatedRequests;
  readonly type: ChangeType;
  /** Empty where the way lets nothing in. */
  readonly connections: ConnectionSet;
  /** Why the other side is not judged. */
  readonly why?: string | undefined;
}

/** A connection of one of the two hops: from outside to the controller, or from there to a pod. */
interface Hop {
  readonly kind: "entry" | "onward";
  readonly source: FlowEnd;
  readonly destination: FlowEnd;
  readonly family: 4 | 6 | undefined;
  readonly traffic: Traffic & { readonly port: number };
}

/** Returns a connection by which a way differs, with the reasons; of a way on one side, one that decides about it. */
export function wayWitness(sides: WaySides, locations: Locations, changed: ChangedWay): Witness | undefined {
  const { before, after } = changed;
  if (before !== undefined && after !== undefined)
    return changedWitness(sides, locations, { ...changed, before, after });
  if (after !== undefined) return oneSidedWitness(sides, locations, { ...changed, way: after, side: "after" });
  return before && oneSidedWitness(sides, locations, { ...changed, way: before, side: "before" });
}

/** Prefers a connection that one side allows and the other does not. */
function changedWitness(
  sides: WaySides,
  locations: Locations,
  { before, after, type, connections }: ChangedWay & Required<Pick<ChangedWay, "before" | "after">>,
): Witness | undefined {
  const open = type === "removed" ? before : after;
  const hops = hopsOf(type === "removed" ? sides.before.index : sides.after.index, open).filter(
    ({ kind, traffic }) => kind === "entry" || includes(connections, "TCP", traffic.port),
  );
  const tried = hops.map((hop) => ({
    hop,
    before: verdictOf(sides.before.index, counterpart(hop, before)),
    after: verdictOf(sides.after.index, counterpart(hop, after)),
  }));
  const isAllowed = (verdict: PolicyVerdict | undefined): boolean => verdict?.kind === "allowed";
  const isChanged = (one: (typeof tried)[number]): boolean =>
    type === "removed"
      ? isAllowed(one.before) && !isAllowed(one.after)
      : isAllowed(one.after) && !isAllowed(one.before);
  const found = tried.find(isChanged) ?? tried[0];
  return found && witness(found.hop, changedEnds(found, locations));
}

/** Prefers a connection to the pods that is allowed or, where the way lets nothing in, any that is denied. */
function oneSidedWitness(
  sides: WaySides,
  locations: Locations,
  {
    way,
    side,
    connections,
    why,
  }: Pick<ChangedWay, "connections" | "why"> & { readonly way: EvaluatedRequests; readonly side: keyof WaySides },
): Witness | undefined {
  const { index } = sides[side];
  const isOpen = !isEmpty(connections);
  const hops = hopsOf(index, way).map((hop) => ({ hop, verdict: verdictOf(index, hop) }));
  const decides = ({ hop, verdict }: (typeof hops)[number]): boolean =>
    isOpen ? hop.kind === "onward" && verdict?.kind === "allowed" : verdict?.kind !== "allowed";
  const found = hops.find(decides) ?? hops[0];
  if (why !== undefined) return found && witness(found.hop, oneSidedEnds(found.verdict, side, locations[side], why));
  const isThere = sides[otherOf(side)].objects.has(way.name);
  const absent = isThere ? `${way.name} does not lead there` : `${way.name} is not there`;
  return found && witness(found.hop, oneSidedEnds(found.verdict, side, locations[side], absent));
}

function witness({ source, destination, traffic }: Hop, ends: Witness["ends"]): Witness {
  return { source: endText(source), destination: endText(destination), ...traffic, ends };
}

function verdictOf(index: PolicyIndex, { source, destination, family, traffic }: Hop): PolicyVerdict | undefined {
  const isThere = [source, destination].every((end) => end.type !== "pod" || index.pods.has(end.key));
  return isThere ? evaluatePolicy(index, { source, destination, family, ...traffic }) : undefined;
}

/** Returns the connections of both hops, for one pod of each kind that policies distinguish. */
function hopsOf(index: PolicyIndex, way: EvaluatedRequests): readonly Hop[] {
  const { controllers, servers } = podsOf(way);
  const [senders, receivers] = [representatives(index, controllers), representatives(index, servers)];
  const entries = senders.flatMap((controller) => {
    const doors = way.group.doors.ports.get(controller.key) ?? [];
    const ports = doors.length > 0 ? doors : [FIRST_PORT];
    return way.regions.flatMap(({ representative: address, family }) =>
      ports.map((port): Hop => {
        const ends = { source: { type: "address", address }, destination: podEnd(controller) } as const;
        return { kind: "entry", ...ends, family, traffic: { protocol: "TCP", port } };
      }),
    );
  });
  const onward = senders.flatMap((controller) =>
    receivers.flatMap((server) => {
      const ends = { source: podEnd(controller), destination: podEnd(server) };
      const ports = way.endpoints.flatMap(({ pod, port }) => (pod.key === server.key ? [port] : []));
      return (familiesOf(index, ends) ?? [undefined]).flatMap((family) =>
        ports.map((port): Hop => ({ kind: "onward", ...ends, family, traffic: { protocol: "TCP", port } })),
      );
    }),
  );
  return [...onward, ...entries];
}

/** Returns the same hop on the other side, between pods that the way has there. */
function counterpart(hop: Hop, way: EvaluatedRequests): Hop {
  const { controllers, servers } = podsOf(way);
  const same = (end: FlowEnd, pods: readonly Pod[]): FlowEnd => {
    if (end.type !== "pod" || pods.some(({ key }) => key === end.key)) return end;
    const [first] = pods;
    return first === undefined ? end : podEnd(first);
  };
  const isEntry = hop.kind === "entry";
  return {
    ...hop,
    source: isEntry ? hop.source : same(hop.source, controllers),
    destination: same(hop.destination, isEntry ? controllers : servers),
  };
}

function representatives(index: PolicyIndex, pods: readonly Pod[]): readonly Pod[] {
  if (pods.length <= MOST_TRIED) return pods;
  const classes = new Map(podClasses(index).flatMap((one, number) => one.pods.map((key) => [key, number] as const)));
  return [...new Map(pods.map((pod) => [classes.get(pod.key), pod])).values()];
}

function podEnd({ key }: Pod): FlowEnd {
  return { type: "pod", key };
}

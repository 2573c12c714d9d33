import { formatAddress } from "../../../kernel/ip/address.ts";
import { evaluatePolicy } from "../../../objects/semantics/policies/evaluate.ts";
import { failureText } from "../../../objects/semantics/policies/print.ts";
import type { Direction, Flow, FlowEnd, Traffic } from "../../../objects/semantics/policies/flow.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { EndVerdict, PolicyVerdict } from "../../../objects/semantics/policies/verdict.ts";
import { type Locate, type Place, placeText } from "../../input/locate.ts";
import { PROTOCOLS } from "../../../objects/protocol.ts";
import { type ConnectionSet, FIRST_PORT, includes } from "../connections/connection_set.ts";
import type { End, Sides } from "./end_class.ts";
import type { ExamplePair } from "./diff.ts";
import type { PairChange, ChangeType } from "./pair_change.ts";
import { shortList } from "../../../objects/printable.ts";
import { trafficText } from "../../output/text.ts";

/** One connection that changed, with the reason on each side, as docs/cli.md describes it. */
export interface Witness {
  readonly source: string;
  readonly destination: string;
  readonly protocol: Traffic["protocol"];
  readonly port?: number | undefined;
  /** Egress at the source, ingress at the destination, or both: where the verdict changes or a rule decides. */
  readonly ends: readonly WitnessEnd[];
}

interface WitnessEnd {
  readonly direction: Direction;
  readonly before: Reason;
  readonly after: Reason;
}

/** The verdict at an end, and why. */
interface Reason {
  readonly allowed: boolean;
  /** In words, with places in brackets. */
  readonly reason: string;
  /**
   * The deciding rule, or the policies that isolate the end. A denial without a place is the absence of one of the ends:
   * no policy was evaluated.
   */
  readonly places: readonly Place[];
}

const DIRECTIONS: readonly Direction[] = ["egress", "ingress"];
const MOST_ISOLATING = 3;
/** Well-known ports, preferred in examples where the destination names none of the ports. */
const KNOWN_PORTS = [443, 80, 53];

/** The locations of the objects of both sides. */
export interface Locations {
  readonly before: Locate;
  readonly after: Locate;
}

/** Returns the witness of one change. */
export function witnessOf(sides: Sides, locations: Locations, change: PairChange, example: ExamplePair): Witness {
  const side = change.cause === "gone" ? "before" : "after";
  const [source, destination] = [example.source[side], example.destination[side]];
  if (source === undefined || destination === undefined)
    throw new RangeError("an example is on the side of its change");
  const traffic = trafficIn(change.connections, namedPorts(sides[side], destination));
  const evaluate = (on: keyof Sides): PolicyVerdict | undefined => {
    const ends = { source: example.source[on], destination: example.destination[on] };
    if (ends.source === undefined || ends.destination === undefined) return undefined;
    const flow: Flow = { source: ends.source, destination: ends.destination, family: change.anyFamily, ...traffic };
    return evaluatePolicy(sides[on], flow);
  };
  const verdicts = { before: evaluate("before"), after: evaluate("after") };
  const absent = [example.source, example.destination].flatMap((end) =>
    end.before === undefined || end.after === undefined ? [endText(end[side] ?? source)] : [],
  );
  const ends =
    change.cause === "difference"
      ? changedEnds(verdicts, locations)
      : oneSidedEnds(
          verdicts[side],
          side,
          locations[side],
          `${absent.join(" and ")} ${absent.length > 1 ? "are" : "is"} not there`,
        );
  const nameIn = ({ group }: End, end: FlowEnd): string =>
    group.kind === "new pods" || group.kind === "nodes" ? group.name : endText(end);
  return {
    source: nameIn(example.source, source),
    destination: nameIn(example.destination, destination),
    ...traffic,
    ends,
  };
}

/** Returns the ends at which the verdict changes. */
function changedEnds(
  { before, after }: Readonly<Record<keyof Sides, PolicyVerdict | undefined>>,
  locations: Locations,
): readonly WitnessEnd[] {
  if (before === undefined || after === undefined) return [];
  if (before.kind === "impossible" || after.kind === "impossible") return [];
  return DIRECTIONS.flatMap((direction): readonly WitnessEnd[] => {
    if (before[direction].isAllowed === after[direction].isAllowed) return [];
    const was = reasonOf(before[direction], direction, locations.before);
    return [{ direction, before: was, after: reasonOf(after[direction], direction, locations.after) }];
  });
}

/**
 * Returns the ends that deny or, if there are none, those at which a rule decides or, without one, the destination.
 *
 * @param text says for the other side what is absent there
 */
function oneSidedEnds(
  verdict: PolicyVerdict | undefined,
  side: keyof Sides,
  locate: Locate,
  text: string,
): readonly WitnessEnd[] {
  if (verdict === undefined || verdict.kind === "impossible") return [];
  const denied = DIRECTIONS.filter((direction) => !verdict[direction].isAllowed);
  const decided = DIRECTIONS.filter((direction) => verdict[direction].decision.type.endsWith("rule"));
  const none: Reason = { allowed: false, reason: text, places: [] };
  const [told = ["ingress"] as const] = [denied, decided].filter((some) => some.length > 0);
  return told.map((direction) => {
    const reason = reasonOf(verdict[direction], direction, locate);
    return { direction, before: none, after: none, [side]: reason };
  });
}

function trafficIn(set: ConnectionSet, preferred: readonly number[]): Traffic {
  for (const protocol of PROTOCOLS) {
    const [first] = set.ports[protocol];
    if (first === undefined) continue;
    const known = [...preferred, ...KNOWN_PORTS].find((port) => includes(set, protocol, port));
    return { protocol, port: known ?? first.first };
  }
  return set.icmp ? { protocol: "ICMP" } : { protocol: "TCP", port: FIRST_PORT };
}

function namedPorts({ pods }: PolicyIndex, end: FlowEnd): readonly number[] {
  return end.type === "pod" ? (pods.get(end.key)?.pod.ports ?? []).map(({ port }) => port) : [];
}

/** Returns an end as text: `shop/web-0`, `node/worker-1`, `203.0.113.1`. */
function endText(end: FlowEnd): string {
  switch (end.type) {
    case "pod":
      return end.key;
    case "node":
      return `node/${end.name}`;
    case "address":
      return end.asked === undefined ? formatAddress(end.address) : `${end.asked} at ${formatAddress(end.address)}`;
  }
}

/** Returns the verdict of an end and why, with the places of the deciding policies. */
export function reasonOf(
  { isAllowed: allowed, decision, isolatedBy, nearest }: EndVerdict,
  direction: Direction,
  locate: Locate,
): Reason {
  switch (decision.type) {
    case "exempt":
      return { allowed, reason: "policies are not asked", places: [] };
    case "default":
      return { allowed, reason: "no policy has a say", places: [] };
    case "rule": {
      const place = locate(`NetworkPolicy ${decision.rule.policy}`, direction, decision.rule.rule);
      return { allowed, reason: placeText(place), places: [place] };
    }
    case "cluster rule": {
      const { rule } = decision;
      const place = locate(`ClusterNetworkPolicy ${rule.policy}`, direction, rule.rule);
      return { allowed, reason: `${rule.action} of ${placeText(place)}`, places: [place] };
    }
    case "isolated": {
      const places = isolatedBy.map((key) => locate(`NetworkPolicy ${key}`));
      const isolating = `isolated by ${shortList(places, MOST_ISOLATING, placeText)}`;
      if (nearest === undefined) return { allowed, reason: isolating, places };
      const near = locate(`NetworkPolicy ${nearest.policy}`, direction, nearest.rule);
      const nearText = placeText({ ...near, name: near.name.slice("NetworkPolicy ".length) });
      return {
        allowed,
        reason: `${isolating}; nearest is ${nearText}, but ${nearest.failed.map(failureText).join("; ")}`,
        places,
      };
    }
  }
}

/** A change in words, without colour and unfolded, as each form for people has it. */
export interface InWords {
  readonly type: ChangeType;
  /** `opens`, with a note that a workload is new or gone. */
  readonly word: string;
  /** The change itself, then its witness with the reasons. */
  readonly head: string;
  readonly lines: readonly string[];
  /** The rows and columns of a page, and the ends of arrows. */
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly connections: string;
  /** The words at an arrow; undefined where nothing is let in. */
  readonly label: string | undefined;
}

/** Returns the connection of a witness: `shop/web-0 -> shop/db-0 5432/TCP`. */
export function exampleText(witness: Witness): string {
  return `${witness.source} -> ${witness.destination} ${trafficText(witness)}`;
}

/** Returns the reasons before and after, a line each. */
export function reasonLines({ ends }: Witness): readonly string[] {
  const lines = ends.flatMap(({ direction, before, after }) => [
    `before: ${reasonText(direction, before)}`,
    `after:  ${reasonText(direction, after)}`,
  ]);
  // The absence of an end is the same line for both ends.
  return [...new Set(lines)];
}

/** Returns a reason with its verdict: `ingress denied: isolated by NetworkPolicy shop/db`. */
export function reasonText(direction: string, { allowed, reason, places }: Reason): string {
  if (!allowed && places.length === 0) return reason;
  return `${direction} ${allowed ? "allowed" : "denied"}: ${reason}`;
}

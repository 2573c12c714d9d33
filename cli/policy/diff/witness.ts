import { formatAddress } from "../../../kernel/ip/address.ts";
import { nameOf } from "../../../policyd/cluster/gate.ts";
import { evaluatePolicy } from "../../../policyd/policy/evaluate/evaluate.ts";
import { failureText } from "../../../policyd/policy/evaluate/failure_text.ts";
import type { Direction, Flow, FlowEnd, Traffic } from "../../../policyd/policy/evaluate/flow.ts";
import type { PolicyIndex } from "../../../policyd/policy/evaluate/policy_index.ts";
import type { EndVerdict, RuleMatch } from "../../../policyd/policy/evaluate/verdict.ts";
import type { FieldPath } from "../../../policyd/source/documents.ts";
import type { Manifest } from "../../input/manifests.ts";
import { locationText } from "../../input/place.ts";
import type { ConnectionSet } from "../connections/connection_set.ts";
import { FIRST_PORT, includes, PORT_PROTOCOLS } from "../connections/connection_set.ts";
import type { Sides } from "./end_class.ts";
import type { ExamplePair } from "./diff.ts";
import type { PairChange } from "./pair_change.ts";

/** One connection that changed, with what decided about it on each side. */
export interface Witness {
  readonly source: string;
  readonly destination: string;
  readonly traffic: Traffic;
  /** Egress at the source, ingress at the destination, or both: where the answer is another one. */
  readonly ends: readonly WitnessEnd[];
}

export interface WitnessEnd {
  readonly direction: Direction;
  readonly before: Reason;
  readonly after: Reason;
}

/** What an end says, and why. */
export interface Reason {
  readonly isAllowed: boolean;
  /** With the places in brackets. */
  readonly text: string;
  /** The rule that decided, or the policies that isolate the end. */
  readonly places: readonly Place[];
}

export interface Place {
  /** `NetworkPolicy shop/web ingress[0]`, without a rule where the policy isolates. */
  readonly name: string;
  readonly file: string | undefined;
  readonly line: number | undefined;
}

/** Finds where an object stands. */
export type Locate = (name: string, path: FieldPath) => Pick<Place, "file" | "line">;

const MOST_ISOLATING = 3;
/** Ports that readers know, for sets without one that the destination names. */
const KNOWN_PORTS = [443, 80, 53];

/** Looks objects up by their kind and key. */
export function locator(manifests: readonly Manifest[]): Locate {
  const known = new Map(manifests.map((manifest) => [nameOf(manifest.object), manifest]));
  return (name, path) => {
    const manifest = known.get(name);
    return { file: manifest?.file, line: manifest?.lineOf(path) };
  };
}

/** Where the objects of both sides stand. */
export interface Locations {
  readonly before: Locate;
  readonly after: Locate;
}

/** The reasons of one changed connection. */
export function witnessOf(sides: Sides, locations: Locations, change: PairChange, example: ExamplePair): Witness {
  const [source, destination] = [example.source.flowEnd, example.destination.flowEnd];
  const traffic = trafficIn(change.connections, namedPorts(sides.after, destination));
  const flow: Flow = { source, destination, family: change.anyFamily, ...traffic };
  const [before, after] = [evaluatePolicy(sides.before, flow), evaluatePolicy(sides.after, flow)];
  const isJudged = before.kind !== "impossible" && after.kind !== "impossible";
  const directions: readonly Direction[] = ["egress", "ingress"];
  return {
    source: endText(source),
    destination: endText(destination),
    traffic,
    ends: directions.flatMap((direction): readonly WitnessEnd[] => {
      if (!isJudged || before[direction].isAllowed === after[direction].isAllowed) return [];
      return [
        {
          direction,
          before: reasonOf(before[direction], direction, locations.before),
          after: reasonOf(after[direction], direction, locations.after),
        },
      ];
    }),
  };
}

/** `80/TCP`, `ICMP`. */
export function trafficText({ protocol, port }: Traffic): string {
  return port === undefined ? protocol : `${port}/${protocol}`;
}

/** As {@link Place}, for people: `NetworkPolicy shop/web ingress[0] (shop.yaml:12)`. */
export function placeText({ name, file, line }: Place): string {
  return file === undefined || line === undefined ? name : `${name} (${locationText(file, line)})`;
}

function trafficIn(set: ConnectionSet, preferred: readonly number[]): Traffic {
  for (const protocol of PORT_PROTOCOLS) {
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

function endText(end: FlowEnd): string {
  switch (end.type) {
    case "pod":
      return end.key;
    case "node":
      return `node/${end.name}`;
    case "address":
      return formatAddress(end.address);
  }
}

function reasonOf(
  { isAllowed, decision, isolatedBy, nearest }: EndVerdict,
  direction: Direction,
  locate: Locate,
): Reason {
  const fieldOf = (match: RuleMatch): FieldPath => ["spec", direction, match.rule];
  switch (decision.type) {
    case "exempt":
      return { isAllowed, text: "policies are not asked", places: [] };
    case "default":
      return { isAllowed, text: "no policy has a say", places: [] };
    case "rule": {
      const name = `NetworkPolicy ${decision.rule.policy}`;
      const place = { name: `${name} ${direction}[${decision.rule.rule}]`, ...locate(name, fieldOf(decision.rule)) };
      return { isAllowed, text: placeText(place), places: [place] };
    }
    case "cluster rule": {
      const { rule } = decision;
      const name = `ClusterNetworkPolicy ${rule.policy}`;
      const place = { name: `${name} ${direction}[${rule.rule}]`, ...locate(name, fieldOf(rule)) };
      return { isAllowed, text: `${rule.action} of ${placeText(place)}`, places: [place] };
    }
    case "isolated": {
      const places = isolatedBy.map((key) => {
        const name = `NetworkPolicy ${key}`;
        return { name, ...locate(name, []) };
      });
      const rest = places.length > MOST_ISOLATING ? ` and ${places.length - MOST_ISOLATING} more` : "";
      const isolating = `isolated by ${places.slice(0, MOST_ISOLATING).map(placeText).join(", ")}${rest}`;
      if (nearest === undefined) return { isAllowed, text: isolating, places };
      const name = `NetworkPolicy ${nearest.policy}`;
      const near = placeText({
        name: `${nearest.policy} ${direction}[${nearest.rule}]`,
        ...locate(name, fieldOf(nearest)),
      });
      return {
        isAllowed,
        text: `${isolating}; nearest is ${near}, but ${nearest.failed.map(failureText).join("; ")}`,
        places,
      };
    }
  }
}

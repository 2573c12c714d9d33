import { formatCidr } from "../../../kernel/ip/cidr.ts";
import type { LabelRequirement } from "../../model.ts";
import type { Direction } from "./flow.ts";
import type { ClusterRuleMatch, Failure, NearMiss, RuleMatch } from "./verdict.ts";

/** Describes a rule of a ClusterNetworkPolicy: its place, its name, and why it fails closed if it does. */
export function clusterRuleText(rule: ClusterRuleMatch, direction: Direction): string {
  const name = rule.name === undefined ? "" : ` ${JSON.stringify(rule.name)}`;
  const unreadable = rule.unreadable === undefined ? "" : `, which fails closed: ${rule.unreadable}`;
  const tied = rule.tiedWith.length === 0 ? "" : `; undefined: ${rule.tiedWith.join(", ")} of the same priority differ`;
  const place = `${rule.tier} tier, priority ${rule.priority}`;
  return `ClusterNetworkPolicy ${placeText(rule, direction, "protocols")}${name} (${place})${unreadable}${tied}`;
}

/** Describes the place of the nearest rule, and the parts that do not match. */
export function nearMissText(nearest: NearMiss, direction: Direction): string {
  return `${placeText(nearest, direction, "ports")}, but ${nearest.failed.map(failureText).join("; ")}`;
}

/** Returns places in the object as it was written: `shop/web egress[0], to[1], ports[0]`. */
function placeText({ policy, rule, peer, port }: RuleMatch, direction: Direction, ports: string): string {
  const peers = direction === "egress" ? "to" : "from";
  const parts = [
    peer === undefined ? undefined : `${peers}[${peer}]`,
    port === undefined ? undefined : `${ports}[${port}]`,
  ];
  return [`${policy} ${direction}[${rule}]`, ...parts.filter((part) => part !== undefined)].join(", ");
}

/** Describes the part of a rule that does not match, to follow "nearest: …, but". */
export function failureText(failure: Failure): string {
  switch (failure.type) {
    case "pod labels":
      return `the pod has not ${requirementText(failure.requirement)}`;
    case "namespace labels":
      return `its namespace has not ${requirementText(failure.requirement)}`;
    case "namespace":
      return `a podSelector alone is for namespace ${failure.expected}`;
    case "shared address":
      return `${failure.name} has the address as well`;
    case "names":
      return `it is for addresses that DNS has given the pod for ${failure.names.join(", ")}`;
    case "outside cidr":
      return `the address is not within ${formatCidr(failure.cidr)}`;
    case "except":
      return `the address is within except ${formatCidr(failure.except)}`;
    case "protocol":
      return `it is for ${failure.expected}`;
    case "port":
      return `it is for ${portsText(failure.from, failure.to)}`;
    case "named port":
      return `the destination calls ${callsText(failure.found)} ${JSON.stringify(failure.name)}`;
    case "named port of no pod":
      return `the destination is not a pod, so it has no port called ${JSON.stringify(failure.name)}`;
    default:
      return FIXED[failure.type];
  }
}

const FIXED = {
  "no pod": "selectors are for pods with addresses of their own",
  "no address": "the address is not known",
  "no valid peer": "none of its peers is valid",
  "ICMP has no ports": "rules with ports are for TCP, UDP and SCTP",
  "no valid port": "none of its ports is valid",
} as const;

function portsText(from: number, to: number): string {
  return from === to ? `port ${from}` : `ports ${from} to ${to}`;
}

function callsText(found: readonly number[]): string {
  return found.length === 0 ? "no port" : `port ${found.join(", ")}`;
}

/** Returns a requirement as kubectl prints selectors: `app=web`, `tier in (a, b)`, `!canary`. */
export function requirementText({ key, operator, values }: LabelRequirement): string {
  switch (operator) {
    case "In":
      return values.length === 1 ? `${key}=${values.join("")}` : `${key} in (${values.join(", ")})`;
    case "NotIn":
      return values.length === 1 ? `${key}!=${values.join("")}` : `${key} notin (${values.join(", ")})`;
    case "Exists":
      return key;
    case "DoesNotExist":
      return `!${key}`;
  }
}

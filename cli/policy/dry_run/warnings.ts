import { type Direction, DIRECTIONS, type FlowEnd } from "../../../objects/semantics/policies/flow.ts";
import type { Pod } from "../../../objects/model.ts";
import { isShadow, SHADOW_ANNOTATION } from "../../../objects/shadow_annotation.ts";
import { DNS_PORT } from "../../../objects/semantics/policies/decide.ts";
import { isAllowed } from "../../../objects/semantics/policies/evaluate.ts";
import type { IndexedPeer, IndexedRule, PortPattern } from "../../../objects/semantics/policies/indexed_policy.ts";
import type { PodEntry, PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { selects } from "../../../objects/semantics/policies/selector.ts";
import type { Manifest } from "../../input/manifests.ts";
import { includes } from "../connections/connection_set.ts";
import type { PolicyDiff } from "../diff/diff.ts";
import type { EndGroup, Sides } from "../diff/end_class.ts";
import { GroupNames } from "../diff/group_names.ts";
import { oversizes } from "../size.ts";
import type { Applied } from "./apply.ts";
import { type AnyPolicy, selectionOf } from "./effect.ts";

/** A part of a change that is probably a mistake. */
export interface Warning {
  /** Stable, for programs. */
  readonly id:
    | "not-found"
    | "in-shadow"
    | "selects-nothing"
    | "peer-selects-nothing"
    | "unknown-port-name"
    | "dns-blocked"
    | "too-large";
  readonly text: string;
  readonly file: string | undefined;
  readonly line: number | undefined;
}

/** Returns the warnings about a change, in the order of the given objects. */
export function warningsOf(sides: Sides, { changes, missing }: Applied, diff: PolicyDiff): readonly Warning[] {
  const ofPolicies = changes.flatMap(({ type, after }) => {
    if (after === undefined || type === "deleted") return [];
    const { object } = after;
    if (object.kind !== "NetworkPolicy" && object.kind !== "ClusterNetworkPolicy") return [];
    return [...shadowWarnings(after), ...policyWarnings(sides.after, { ...after, object })];
  });
  const notFound = missing.map((name): Warning => ({
    id: "not-found",
    text: `${name} is not among the objects: nothing to delete`,
    file: undefined,
    line: undefined,
  }));
  return [...notFound, ...ofPolicies, ...sizeWarnings(sides), ...dnsWarnings(sides, diff)];
}

/** Returns warnings about policies that nodes no longer enforce completely after the change. */
function sizeWarnings({ before, after }: Sides): readonly Warning[] {
  const textsOf = (index: PolicyIndex): readonly string[] =>
    oversizes(index).map(({ policy, direction, text }) => `NetworkPolicy ${policy.key} ${direction}: ${text}`);
  const known = new Set(textsOf(before));
  return textsOf(after)
    .filter((text) => !known.has(text))
    .map((text): Warning => ({ id: "too-large", text, file: undefined, line: undefined }));
}

function shadowWarnings({ object, file, lineOf }: Manifest): readonly Warning[] {
  if (object.kind !== "NetworkPolicy" || !isShadow(object)) return [];
  const text = `NetworkPolicy ${object.key} is in shadow: it changes nothing; policy matrix --with-shadow shows what it would`;
  return [{ id: "in-shadow", text, file, line: lineOf(["metadata", "annotations", SHADOW_ANNOTATION]) }];
}

function policyWarnings(
  index: PolicyIndex,
  { object: policy, file, line, lineOf }: Manifest<AnyPolicy>,
): readonly Warning[] {
  const name = `${policy.kind} ${policy.key}`;
  const isSelected = selectionOf(index, policy);
  const subjects = [...index.pods.values()].filter(isSelected);
  if (subjects.length === 0) {
    const host = [...index.pods.values()].some(({ pod }) => isSelectedOnHost(policy, pod));
    const because = host ? ": pods of the host's network are never selected" : "";
    return [{ id: "selects-nothing", text: `${name} selects no pod${because}`, file, line }];
  }
  const all = policy.kind === "NetworkPolicy" ? index.networkPolicies : index.clusterPolicies;
  const rules = all.find((one) => one.policy.key === policy.key)?.rules;
  return DIRECTIONS.flatMap((direction) =>
    (rules?.[direction] ?? []).flatMap((rule): readonly Warning[] => {
      const destinations = direction === "ingress" ? subjects : destinationsOf(index, rule);
      return ruleProblems(index, rule, direction, destinations, policy.kind).map(({ id, field, text }) => ({
        id,
        text: `${name} ${direction}[${rule.index}].${field[0]}[${field[1]}]${text}`,
        file,
        line: lineOf(["spec", direction, rule.index, ...field]),
      }));
    }),
  );
}

interface RuleProblem extends Pick<Warning, "id" | "text"> {
  /** The name of a list in the rule, and the index in it. */
  readonly field: readonly [string, number];
}

function ruleProblems(
  objects: PolicyIndex,
  { peers, ports }: IndexedRule,
  direction: Direction,
  destinations: readonly PodEntry[],
  kind: AnyPolicy["kind"],
): readonly RuleProblem[] {
  const ofPeers = (peers ?? [])
    .filter((peer) => isEmptyPeer(peer, objects))
    .map(({ type, index }): RuleProblem => ({
      id: "peer-selects-nothing",
      field: [direction === "ingress" ? "from" : "to", index],
      text: ` selects no ${type === "nodes" ? "node" : "pod"}`,
    }));
  const unknown = (ports ?? []).filter((port) => isUnknown(port, destinations));
  const ofPorts = unknown.map(({ port, index }): RuleProblem => ({
    id: "unknown-port-name",
    field: [kind === "NetworkPolicy" ? "ports" : "protocols", index],
    text: `: no pod that it is for has a port ${JSON.stringify(port)}`,
  }));
  return [...ofPeers, ...ofPorts];
}

function isSelectedOnHost(policy: AnyPolicy, { hostNetwork, namespace, labels }: Pod): boolean {
  if (!hostNetwork || policy.kind !== "NetworkPolicy") return false;
  return namespace === policy.namespace && selects(policy.podSelector, labels);
}

/** Returns whether a peer selects nothing of an index, whose pods and nodes are those without stand-ins. */
function isEmptyPeer(peer: IndexedPeer, { pods, nodes }: PolicyIndex): boolean {
  if (peer.type === "nodes") return ![...peer.names].some((name) => nodes.has(name));
  if (peer.type !== "pods") return false;
  return ![...pods.values()].some(
    ({ subject }) => subject !== undefined && peer.members[subject.identity.number] === 1,
  );
}

/** Returns the pods of an egress rule; peers without named ports are omitted. */
function destinationsOf({ pods }: PolicyIndex, { peers }: IndexedRule): readonly PodEntry[] {
  return [...pods.values()].filter(({ subject }) => {
    if (subject === undefined) return false;
    return (
      peers === undefined || peers.some((peer) => peer.type === "pods" && peer.members[subject.identity.number] === 1)
    );
  });
}

function isUnknown({ port, protocol }: PortPattern, destinations: readonly PodEntry[]): boolean {
  if (typeof port !== "string" || destinations.length === 0) return false;
  return !destinations.some(({ pod }) =>
    pod.ports.some((one) => one.name === port && (protocol === undefined || one.protocol === protocol)),
  );
}

const DNS = { protocol: "UDP", port: DNS_PORT } as const;
const DNS_APPS = new Set(["kube-dns", "coredns", "node-local-dns"]);

/**
 * Returns a warning for pods that lose their access to DNS: they reach no DNS server of the cluster any more or, where
 * the objects contain none, no egress rule allows its port any more.
 */
function dnsWarnings(sides: Sides, { changes, groups }: PolicyDiff): readonly Warning[] {
  // Pods always reach the node's own DNS (POL-72).
  if (sides.after.options.nodeLocalDNS.length > 0) return [];
  const servers = [...sides.after.pods.values()].filter(({ pod }) => isDnsServer(pod)).map(({ pod }) => pod.key);
  const lost = new Set<EndGroup>();
  const ofFiles = changes.filter(({ from, to }) => from.kind !== "new pods" && to.kind !== "new pods");
  for (const { from, change, example } of ofFiles) {
    const { before, after } = example.source;
    if (change.type !== "removed" || change.cause !== "difference" || lost.has(from)) continue;
    if (before?.type !== "pod" || after?.type !== "pod") continue;
    if (!includes(change.connections, DNS.protocol, DNS.port)) continue;
    const reaches = (index: PolicyIndex, source: FlowEnd): boolean =>
      servers.some(
        (key) => index.pods.has(key) && isAllowed(index, { source, destination: { type: "pod", key }, ...DNS }),
      );
    const isLost =
      servers.length > 0
        ? reaches(sides.before, before) && !reaches(sides.after, after)
        : !mayAsk(sides.after, after.key);
    if (isLost) lost.add(from);
  }
  if (lost.size === 0) return [];
  const names = new GroupNames(groups).of(lost).join(", ");
  const text = `${names} can no longer look up names: ${DNS.port}/${DNS.protocol} is cut`;
  return [{ id: "dns-blocked", text, file: undefined, line: undefined }];
}

function isDnsServer({ ports, labels }: Pod): boolean {
  const app = labels["k8s-app"];
  if (app !== undefined && DNS_APPS.has(app)) return true;
  return ports.some(({ protocol, port }) => protocol === DNS.protocol && port === DNS.port);
}

/** Returns whether NetworkPolicies let a pod send to port 53 of any destination. */
function mayAsk({ pods }: PolicyIndex, key: string): boolean {
  const direction: Direction = "egress";
  const isolating = pods.get(key)?.subject?.profile[direction].isolating ?? [];
  if (isolating.length === 0) return true;
  const rules = isolating.flatMap((one) => one.rules[direction]);
  return rules.some(({ ports }) => ports === undefined || ports.some(hasDnsPort));
}

function hasDnsPort({ protocol, port, endPort }: PortPattern): boolean {
  if (protocol !== undefined && protocol !== DNS.protocol) return false;
  return typeof port !== "number" || (port <= DNS.port && DNS.port <= (endPort ?? port));
}

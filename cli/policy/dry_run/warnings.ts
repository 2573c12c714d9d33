import type { FlowEnd } from "../../../objects/semantics/policies/flow.ts";
import { DNS_PORT } from "../../../objects/domain_name.ts";
import { isAllowed } from "../../../objects/semantics/policies/evaluate.ts";
import type { PortPattern } from "../../../objects/semantics/policies/indexed_policy.ts";
import type { PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { ClusterStore } from "../../../objects/store.ts";
import type { Manifests } from "../../input/manifests.ts";
import { type DnsServer, dnsServersIn } from "../cluster_dns.ts";
import { includes } from "../connections/connection_set.ts";
import type { Comparison } from "../diff/compared.ts";
import type { PolicyDiff } from "../diff/diff.ts";
import type { EndGroup, Sides } from "../diff/end_class.ts";
import { groupNames } from "../diff/merge.ts";
import { lintContext } from "../lint/context.ts";
import { lintIn } from "../lint/lint.ts";
import { allowsNothing, rulesIgnored } from "../lint/rules/allows_nothing.ts";
import { hostNetwork } from "../lint/rules/peers.ts";
import { unknownPortName } from "../lint/rules/ports.ts";
import { namespaceTypo, peerSelectsNothing, selectsNothing, unknownNamespace } from "../lint/rules/selects_nothing.ts";
import { inShadow } from "../lint/rules/shadow.ts";
import { oversizes } from "../size.ts";
import { type Applied, placedName } from "./apply.ts";

/** A part of a change that is probably a mistake. */
export interface Warning {
  /** Stable, for programs: that of the rule of `policy lint`, or of a finding about the change itself. */
  readonly id: string;
  readonly text: string;
  readonly file: string | undefined;
  readonly line: number | undefined;
}

/** The rules of lint about policies that do not do what somebody who applies them expects. */
const LINT_RULES = [
  inShadow,
  selectsNothing,
  hostNetwork,
  allowsNothing,
  rulesIgnored,
  peerSelectsNothing,
  namespaceTypo,
  unknownNamespace,
  unknownPortName,
];

/**
 * Returns the warnings about a change: what lint finds in its policies, and what it cuts.
 *
 * @param there the objects before the change, with what else was read
 */
export function warningsOf(
  { sides, diff }: Pick<Comparison, "sides" | "diff">,
  { changes, missing, after }: Applied,
  there: Manifests,
): readonly Warning[] {
  const given = new Set(changes.flatMap((one) => (one.after === undefined ? [] : placedName(one.after))));
  const settings = { ...sides.after.options, refuseExternalIps: false };
  const context = lintContext({ ...there, manifests: after.manifests, wayObjects: [] }, settings);
  const ofPolicies = lintIn(context, LINT_RULES, [])
    .filter(({ place }) => given.has(place.object))
    .map(({ id, place: { object, file, line }, message, fix }): Warning => {
      return { id, text: `${object}: ${message}; fix: ${fix}`, file, line };
    });
  const notFound = missing.map((name): Warning => ({
    id: "not-found",
    text: `${name} is not among the objects: nothing to delete`,
    file: undefined,
    line: undefined,
  }));
  return [...notFound, ...ofPolicies, ...sizeWarnings(sides), ...dnsWarnings(sides, diff, context.store)];
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

const DNS = { protocol: "UDP", port: DNS_PORT } as const;

/**
 * Returns a warning for pods that lose their access to DNS: they reach no DNS server of the cluster any more or, where
 * the objects contain none, no egress rule allows its port any more.
 */
function dnsWarnings(
  sides: Sides,
  { changes, groups }: PolicyDiff,
  { pods, services }: ClusterStore,
): readonly Warning[] {
  // Pods always reach the node's own DNS (POL-72).
  if (sides.after.options.nodeLocalDNS.length > 0) return [];
  const servers = dnsServersIn(pods.values(), services);
  const lost = new Set<EndGroup>();
  const ofFiles = changes.filter(({ from, to }) => from.kind !== "new pods" && to.kind !== "new pods");
  for (const { from, change, example } of ofFiles) {
    const { before, after } = example.source;
    if (change.type !== "removed" || change.cause !== "difference" || lost.has(from)) continue;
    if (before?.type !== "pod" || after?.type !== "pod") continue;
    const isLost =
      servers.length > 0
        ? reachesOne(sides.before, before, servers) && !reachesOne(sides.after, after, servers)
        : includes(change.connections, DNS.protocol, DNS.port) && !mayAsk(sides.after, after.key);
    if (isLost) lost.add(from);
  }
  if (lost.size === 0) return [];
  const names = groupNames(groups)(lost).join(", ");
  const [{ port }] = [...servers, DNS];
  const text = `${names} can no longer look up names: ${port}/${DNS.protocol} is cut`;
  return [{ id: "dns-blocked", text, file: undefined, line: undefined }];
}

function reachesOne(index: PolicyIndex, source: FlowEnd, servers: readonly DnsServer[]): boolean {
  return servers.some(({ pod: { key }, port }) => {
    const flow = { source, destination: { type: "pod", key }, protocol: DNS.protocol, port } as const;
    return index.pods.has(key) && isAllowed(index, flow);
  });
}

/** Returns whether NetworkPolicies let a pod send to port 53 of any destination. */
function mayAsk({ pods }: PolicyIndex, key: string): boolean {
  const isolating = pods.get(key)?.subject?.profile.egress.isolating ?? [];
  if (isolating.length === 0) return true;
  const rules = isolating.flatMap((one) => one.rules.egress);
  return rules.some(({ ports }) => ports === undefined || ports.some(hasDnsPort));
}

function hasDnsPort({ protocol, port, endPort }: PortPattern): boolean {
  if (protocol !== undefined && protocol !== DNS.protocol) return false;
  return typeof port !== "number" || (port <= DNS.port && DNS.port <= (endPort ?? port));
}

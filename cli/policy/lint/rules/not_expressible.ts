import { DIRECTIONS } from "../../../../objects/semantics/policies/flow.ts";
import { type Cidr, cidrContains, formatCidr, isHostCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import type { NetworkPolicy } from "../../../../objects/model.ts";
import type { ManifestProblem } from "../../../input/manifests.ts";
import { type UnknownField, unknownFields } from "../../../input/objects/unknown_fields.ts";
import { isolates, type LintContext, type LintedPolicy, type NetworkSite, peerPath, remark } from "../context.ts";
import { allowsAll as allowsEverything } from "./redundant.ts";
import { cidrCovers, portsCover, selectorCovers } from "../coverage.ts";
import { requirementsOf } from "../../../../objects/semantics/policies/selector.ts";
import { asInfo, type LintRule, type Remark } from "../finding.ts";
import { textAt } from "../../../input/raw.ts";

/** The intention for fields that the API does not have (POL-50), by a word in the field's name. */
const MEANT: readonly (readonly [RegExp, string, string])[] = [
  [
    /deny|action|drop|reject|block/i,
    "deny",
    "NetworkPolicy has no deny rules: use a ClusterNetworkPolicy with action Deny",
  ],
  [/node/i, "nodes by their labels", "use an ipBlock with the nodes' addresses, or a ClusterNetworkPolicy with nodes"],
  [/service(?!account)/i, "Services by name", "select the pods behind the Service by their labels"],
  [/account|identity|principal/i, "identities", "select pods by their labels; identities are a service mesh's"],
  [/tls|http|path|method|l7/i, "TLS or HTTP", "use a service mesh or a proxy"],
  [/gateway|proxy/i, "a common gateway", "use a service mesh or a proxy"],
  [/fqdn|domain|host|dns/i, "names of hosts", "use an ipBlock with their addresses"],
  [/log|audit/i, "logging", "the API has none"],
  [/priority|order|tier/i, "an order of policies", "NetworkPolicies add up: use ClusterNetworkPolicy for an order"],
];

/** Matches labels that nodes have and pods never have. */
const NODE_LABELS = /^(kubernetes\.io\/(hostname|os|arch)$|node-role\.kubernetes\.io\/|node\.kubernetes\.io\/)/;
const LOOPBACKS = ["127.0.0.0/8", "::1/128"].map((text) => parseCidr(text));

export const notExpressible: LintRule = {
  id: "not-expressible",
  severity: "warning",
  summary:
    "Somebody expects of a NetworkPolicy what the API cannot express (POL-50): deny rules, nodes, Services, TLS, loopback.",
  reason: "Nothing enforces the intention. It is info where an exception has a node's address among others.",
  check: (context) => [
    ...context.manifests.problems.flatMap(refusedFields),
    ...context.policies.flatMap(droppedFields),
    ...context.networkPolicies.flatMap(openDeny),
    ...context.networkSites.flatMap((site) => [
      ...nodeLabels(site),
      ...exceptAsDeny(context, site),
      ...ownNodeOrItself(context, site),
    ]),
  ],
};

function droppedFields({ manifest, policy: { kind } }: LintedPolicy): readonly Remark[] {
  return unknownFields(manifest.source).map((field) => {
    const { meant, fix } = meaningOf(field, kind);
    return remark(
      manifest,
      field.path,
      `the field ${field.name} is not a field of ${kind} and is dropped${meant}`,
      fix,
    );
  });
}

function meaningOf(
  { name, isLabel }: UnknownField,
  kind = "NetworkPolicy",
): { readonly meant: string; readonly fix: string } {
  if (isLabel === true) {
    const fix = "a selector has matchLabels and matchExpressions: write a label below matchLabels";
    return { meant: ", and the selector selects more", fix };
  }
  const [, what, fix] = MEANT.find(([word]) => word.test(name)) ?? [];
  if (what === undefined || fix === undefined || kind !== "NetworkPolicy")
    return { meant: "", fix: "delete it, or correct its name" };
  return { meant: `; NetworkPolicy cannot express ${what}`, fix };
}

/** Reports a refused policy, whose mistake may be only such a field. */
function refusedFields({ file, line, message, source }: ManifestProblem): readonly Remark[] {
  if (textAt(source, "kind") !== "NetworkPolicy") return [];
  const name = `${textAt(source, "metadata", "namespace") ?? "default"}/${textAt(source, "metadata", "name") ?? ""}`;
  // One of several problems of an object suffices for the report.
  if (!message.includes("expected podSelector, namespaceSelector or both")) return [];
  return unknownFields(source).flatMap((field) => {
    const { meant, fix } = meaningOf(field);
    if (meant === "") return [];
    const place = { object: `NetworkPolicy ${name}`, file, line, source };
    return [{ place, message: `the field ${field.name} is not a field of NetworkPolicy${meant}`, fix }];
  });
}

/**
 * Reports a policy whose name says only that it denies, but that has a rule for all peers and ports in the direction of
 * its name, or else in each that it isolates.
 */
function openDeny({ manifest, policy }: LintedPolicy<NetworkPolicy>): readonly Remark[] {
  const words = policy.name.split(/[-.]/);
  const says = (...some: readonly string[]): boolean => some.some((word) => words.includes(word));
  if (!says("deny", "block", "reject", "drop") || says("allow", "permit", "accept", "open", "except")) return [];
  const named = DIRECTIONS.filter((direction) => says(direction) && isolates(policy, direction));
  const meant =
    says(...DIRECTIONS) || !allowsEverything(policy) ? named : DIRECTIONS.filter((one) => isolates(policy, one));
  return meant.flatMap((direction) =>
    policy[direction].flatMap(({ index, peers, ports }) => {
      if (peers !== undefined || ports !== undefined) return [];
      const message = `is called ${policy.name} and allows all ${direction}: rules allow, the rule {} everything`;
      return [
        remark(
          manifest,
          ["spec", direction, index],
          message,
          "delete the rule to close the direction, or rename the policy",
        ),
      ];
    }),
  );
}

function nodeLabels(site: NetworkSite): readonly Remark[] {
  return (site.rule.peers ?? []).flatMap((peer) => {
    if (peer.type !== "pods") return [];
    const selectors = [peer.podSelector, peer.namespaceSelector].filter((one) => one !== undefined);
    const found = selectors.flatMap(requirementsOf).find(({ key }) => NODE_LABELS.test(key));
    if (found === undefined) return [];
    const message = `${found.key} is a label of nodes; NetworkPolicy cannot express nodes by their labels`;
    const fix = "use an ipBlock with the nodes' addresses, or a ClusterNetworkPolicy with nodes";
    return [remark(site.linted.manifest, peerPath(site, peer.index), message, fix)];
  });
}

/** Reports exceptions that other rules allow: an exception does not deny (POL-25). */
function exceptAsDeny({ networkSites }: LintContext, site: NetworkSite): readonly Remark[] {
  const { policy } = site.linted;
  if (site.rule.peers?.some((peer) => peer.type === "ipBlock" && peer.except.length > 0) !== true) return [];
  const others = networkSites.filter(
    ({ linted, direction, rule }) =>
      direction === site.direction &&
      linted.policy.namespace === policy.namespace &&
      selectorCovers(linted.policy.podSelector, policy.podSelector) &&
      portsCover(rule.ports, site.rule.ports),
  );
  return (site.rule.peers ?? []).flatMap((peer) => {
    if (peer.type !== "ipBlock") return [];
    return peer.except.flatMap((except) => {
      const opener = others.find(({ rule }) => allowsAll(rule.peers, except));
      if (opener === undefined) return [];
      const where = `${opener.linted.policy.key} ${opener.direction}[${opener.rule.index}]`;
      const message = `except ${formatCidr(except)} denies nothing: ${where} allows it`;
      const fix = "make the same exception there; a deny for all is a ClusterNetworkPolicy's";
      return [remark(site.linted.manifest, [...peerPath(site, peer.index), "ipBlock", "except"], message, fix)];
    });
  });
}

function allowsAll(peers: NetworkSite["rule"]["peers"], range: Cidr): boolean {
  if (peers === undefined) return true;
  return peers.some(
    (peer) =>
      peer.type === "ipBlock" &&
      cidrCovers(peer.cidr, range) &&
      !peer.except.some((one) => cidrCovers(one, range) || cidrCovers(range, one)),
  );
}

/** Reports exceptions for the own node or the pod itself, which are never cut off (POL-06, POL-07). */
function ownNodeOrItself({ nodes, settings }: LintContext, site: NetworkSite): readonly Remark[] {
  const isNodePoliced = settings.policePodToOwnNode && site.direction === "egress";
  return (site.rule.peers ?? []).flatMap((peer) => {
    if (peer.type !== "ipBlock") return [];
    return peer.except.flatMap((except) => {
      const node = isNodePoliced
        ? undefined
        : nodes.find(({ addresses }) => addresses.some(({ address }) => cidrContains(except, address)));
      const isLoopback = LOOPBACKS.some((one) => cidrCovers(one, except));
      if (node === undefined && !isLoopback) return [];
      const what = isLoopback ? "a pod's own loopback" : `node ${node?.name ?? ""} for the pods on it`;
      const message = `except ${formatCidr(except)} does not cut off ${what}: NetworkPolicy cannot express that`;
      const fix = "nothing keeps a pod from itself, or its node from it";
      const found = remark(site.linted.manifest, [...peerPath(site, peer.index), "ipBlock", "except"], message, fix);
      // A range with other addresses, such as 10.0.0.0/8, is usually meant for these.
      return [asInfo(found, !isLoopback && !isHostCidr(except))];
    });
  });
}

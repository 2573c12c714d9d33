import { type Direction, DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import type {
  ClusterNetworkPolicy,
  ClusterPolicyRule,
  Labels,
  Namespace,
  NetworkPolicy,
  Node,
  Pod,
  PolicyRule,
  Service,
} from "../../../objects/model.ts";
import { nameOf } from "../../../objects/gate/gate.ts";
import { nameLabel } from "../../../objects/name.ts";
import type { ClusterStore } from "../../../objects/store.ts";
import { isFinished } from "../../../objects/semantics/policies/address_owner.ts";
import type {
  IndexedClusterPolicy,
  IndexedNetworkPolicy,
  IndexedPeer,
  IndexedRule,
} from "../../../objects/semantics/policies/indexed_policy.ts";
import type { PolicyOptions } from "../../../objects/semantics/policies/objects.ts";
import { type Members, numbersIn } from "../../../objects/semantics/policies/peer_selection.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import type { FieldPath } from "../../../objects/yaml/documents.ts";
import { clusterOf } from "../../cluster/cluster.ts";
import { storeOf } from "../../cluster/policy_objects.ts";
import { serviceObjects } from "../../cluster/service_objects.ts";
import { givenControllers, runningOf } from "../../ways_in/controller_option.ts";
import { NO_WAYS_IN, type WaysIn, waysInto } from "../../ways_in/ways_in.ts";
import type { Manifest, Manifests } from "../../input/manifests.ts";
import type { Place, Remark } from "./finding.ts";
import { labelDomainsOf } from "./operator_selectors.ts";
import { CLUSTER } from "../../input/place.ts";
import { membersAt } from "../../input/raw.ts";

/** A policy with its manifest and the pods that it selects. */
export interface LintedPolicy<T extends NetworkPolicy | ClusterNetworkPolicy = NetworkPolicy | ClusterNetworkPolicy> {
  readonly manifest: Manifest;
  readonly policy: T;
  readonly indexed: IndexedNetworkPolicy | IndexedClusterPolicy;
  /** The pods that it selects, without those of the host's network. */
  readonly pods: readonly Pod[];
}

/** A Service with the pods its selector selects. */
export interface LintedService {
  readonly manifest: Manifest;
  readonly service: Service;
  readonly pods: readonly Pod[];
}

/** A rule of a policy that takes effect, with the path to it. */
export interface RuleSite<
  P extends NetworkPolicy | ClusterNetworkPolicy = NetworkPolicy | ClusterNetworkPolicy,
  R extends PolicyRule | ClusterPolicyRule = PolicyRule | ClusterPolicyRule,
> {
  readonly linted: LintedPolicy<P>;
  readonly direction: Direction;
  readonly rule: R;
  readonly indexed: IndexedRule;
  readonly path: FieldPath;
}

export type NetworkSite = RuleSite<NetworkPolicy, PolicyRule>;
export type ClusterSite = RuleSite<ClusterNetworkPolicy, ClusterPolicyRule>;

/** The input of the rules: everything that was read, with resolved selectors. */
export interface LintContext {
  readonly manifests: Manifests;
  readonly settings: LintSettings;
  readonly store: ClusterStore;
  readonly index: PolicyIndex;
  readonly networkPolicies: readonly LintedPolicy<NetworkPolicy>[];
  readonly clusterPolicies: readonly LintedPolicy<ClusterNetworkPolicy>[];
  /** Those of both kinds. */
  readonly policies: readonly LintedPolicy[];
  /** The rules of NetworkPolicies in the directions they isolate, policy by policy. */
  readonly networkSites: readonly NetworkSite[];
  /** In the order of evaluation. */
  readonly clusterSites: readonly ClusterSite[];
  /** Those of both kinds. */
  readonly sites: readonly RuleSite[];
  readonly services: readonly LintedService[];
  readonly waysIn: WaysIn;
  /** Pods that have not finished, without those of the host's network. */
  readonly pods: readonly Pod[];
  /** The domains in the keys of their labels. */
  readonly labelDomains: ReadonlySet<string>;
  /** Unfinished pods of the host's network. */
  readonly hostPods: readonly Pod[];
  /** Whether a running cluster was read, so that whatever was not read does not exist. */
  readonly isWhole: boolean;
  /** Without any pod, every policy would seem to select nothing. */
  readonly hasPods: boolean;
  readonly nodes: readonly Node[];
  /** The labels by name of every namespace that has an object here. */
  readonly namespaces: ReadonlyMap<string, Labels>;
  /** Returns the pods of a peer; undefined for addresses and nodes. */
  podsOf(peer: IndexedPeer): readonly Pod[] | undefined;
}

/** The parts of policyd's configuration that affect policies and Services. */
export interface LintSettings extends PolicyOptions {
  readonly refuseExternalIps: boolean;
}

const DEFAULTS: LintSettings = Object.freeze({ policePodToOwnNode: false, nodeLocalDNS: [], refuseExternalIps: false });

/**
 * Prepares the objects for the rules, without those that could not be read.
 *
 * @param controllers the pods of Ingresses and Gateways, as the command line names them
 * @throws DrawbridgeError ERR_OBJECT for a controller's name without pods
 */
export function lintContext(
  manifests: Manifests,
  settings = DEFAULTS,
  controllers: readonly string[] = [],
): LintContext {
  const store = storeOf(manifests.manifests.map(({ object }) => object));
  const index = buildPolicyIndex(store, settings);
  const byIdentity = Map.groupBy(index.pods.values(), ({ subject }) => subject?.identity.number ?? -1);
  const known = new Map<Members, readonly Pod[]>();
  const selected = (members: Members): readonly Pod[] => {
    const before = known.get(members);
    if (before !== undefined) return before;
    const found = numbersIn(members).flatMap((number) => (byIdentity.get(number) ?? []).map(({ pod }) => pod));
    known.set(members, found);
    return found;
  };
  const pods = [...store.pods.values()].filter((pod) => !isFinished(pod));
  const ownNetwork = pods.filter(({ hostNetwork }) => !hostNetwork);
  const manifestOf = new Map(manifests.manifests.map((manifest) => [nameOf(manifest.object), manifest]));
  const policiesOf = <T extends IndexedNetworkPolicy | IndexedClusterPolicy>(
    all: readonly T[],
  ): readonly { manifest: Manifest; policy: T["policy"]; indexed: T; pods: readonly Pod[] }[] =>
    all.flatMap((indexed) => {
      const manifest = manifestOf.get(nameOf(indexed.policy));
      return manifest === undefined
        ? []
        : [{ manifest, policy: indexed.policy, indexed, pods: selected(indexed.subject) }];
    });
  const networkPolicies = policiesOf(index.networkPolicies);
  const clusterPolicies = policiesOf(index.clusterPolicies);
  const networkSites = networkPolicies.flatMap((linted) =>
    DIRECTIONS.filter((direction) => isolates(linted.policy, direction)).flatMap((direction) =>
      sitesOf(linted, direction, linted.policy[direction]),
    ),
  );
  const clusterSites = clusterPolicies.flatMap((linted) =>
    DIRECTIONS.flatMap((direction) => sitesOf(linted, direction, linted.policy[direction])),
  );
  return {
    manifests,
    settings,
    store,
    index,
    networkPolicies,
    clusterPolicies,
    policies: [...networkPolicies, ...clusterPolicies],
    networkSites,
    clusterSites,
    sites: [...networkSites, ...clusterSites],
    services: manifests.manifests.flatMap((manifest): readonly LintedService[] => {
      const { object: service } = manifest;
      return service.kind === "Service" ? [{ manifest, service, pods: servicePods(manifest, service, pods) }] : [];
    }),
    waysIn: waysOf(manifests, settings, controllers),
    pods: ownNetwork,
    labelDomains: labelDomainsOf(ownNetwork),
    hostPods: pods.filter(({ hostNetwork }) => hostNetwork),
    isWhole: manifests.manifests.every(({ file }) => file === CLUSTER),
    hasPods: pods.length > 0,
    nodes: [...store.nodes.values()],
    namespaces: namespacesOf(manifests, store.namespaces),
    podsOf: (peer) => (peer.type === "pods" ? selected(peer.members) : undefined),
  };
}

/** @throws DrawbridgeError ERR_OBJECT for a controller's name without pods */
function waysOf({ manifests, wayObjects }: Manifests, settings: LintSettings, controllers: readonly string[]): WaysIn {
  if (wayObjects.length === 0 && controllers.length === 0) return NO_WAYS_IN;
  const cluster = clusterOf(manifests, settings);
  const given = givenControllers(controllers, runningOf([...cluster.store.pods.values()]));
  return waysInto(wayObjects, cluster, serviceObjects(cluster), given);
}

function sitesOf<P extends NetworkPolicy | ClusterNetworkPolicy, R extends PolicyRule | ClusterPolicyRule>(
  linted: LintedPolicy<P>,
  direction: Direction,
  rules: readonly R[],
): readonly RuleSite<P, R>[] {
  return rules.flatMap((rule, i) => {
    const indexed = linted.indexed.rules[direction][i];
    return indexed === undefined ? [] : [{ linted, direction, rule, indexed, path: ["spec", direction, rule.index] }];
  });
}

/** Returns whether a policy isolates its pods in a direction. */
export function isolates({ policyTypes }: NetworkPolicy, direction: Direction): boolean {
  return policyTypes.includes(direction === "egress" ? "Egress" : "Ingress");
}

/** Returns the path to a peer of a rule. */
export function peerPath({ direction, path }: RuleSite, index: number): FieldPath {
  return [...path, direction === "egress" ? "to" : "from", index];
}

/** Returns a remark about a field of an object. */
export function remark(manifest: Manifest, path: FieldPath, message: string, fix: string): Remark {
  return { place: placeOf(manifest, path), message, fix };
}

function placeOf({ object, file, lineOf, source }: Manifest, path: FieldPath): Place {
  return { object: nameOf(object), file, line: lineOf(path), source };
}

/** Returns the pods that a Service's selector selects; none without one. The model leaves them to EndpointSlices. */
function servicePods({ source }: Manifest, { namespace }: Service, pods: readonly Pod[]): readonly Pod[] {
  const wanted = membersAt(source, "spec", "selector");
  if (wanted.length === 0) return [];
  return pods.filter((pod) => pod.namespace === namespace && wanted.every(([key, value]) => pod.labels[key] === value));
}

function namespacesOf({ manifests }: Manifests, known: ReadonlyMap<string, Namespace>): ReadonlyMap<string, Labels> {
  const names = manifests.flatMap(({ object }) => ("namespace" in object ? [object.namespace] : []));
  const implied = names.map((name): [string, Labels] => [name, nameLabel(name)]);
  return new Map([...implied, ...[...known.values()].map(({ name, labels }): [string, Labels] => [name, labels])]);
}

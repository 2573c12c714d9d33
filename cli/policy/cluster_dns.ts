import { CLUSTER_DNS, type ClusterDns } from "../../objects/cluster_dns.ts";
import { judge } from "../../objects/gate/gate.ts";
import type { ClusterObject, NetworkPolicy, Pod, PodPeer, PolicyPort, Service } from "../../objects/model.ts";
import { nameLabel } from "../../objects/name.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { DNS_PORT } from "../../objects/domain_name.ts";
import { evaluatePolicy } from "../../objects/semantics/policies/evaluate.ts";
import { buildPolicyIndex, type PolicyIndex } from "../../objects/semantics/policies/policy_index.ts";
import { selects } from "../../objects/semantics/policies/selector.ts";
import type { ClusterStore } from "../../objects/store.ts";
import { storeOf } from "../cluster/policy_objects.ts";

/** A pod of the cluster's DNS, and the port on which it listens. */
export interface DnsServer {
  readonly pod: Pod;
  readonly port: number;
}

/**
 * Returns the pods of the cluster's DNS among some objects, with the port to which their Service leads; none where the
 * objects do not have it. They have the labels of a distribution or, as every CoreDNS, a port `dns`.
 */
export function dnsServersIn(pods: Iterable<Pod>, services: ReadonlyMap<string, Service>): readonly DnsServer[] {
  const running = [...pods].filter((pod) => !isFinished(pod));
  return CLUSTER_DNS.flatMap(({ namespace, service, labels, port: usual }) => {
    const ports = services.get(`${namespace}/${service}`)?.ports ?? [];
    const target = ports.find(({ protocol, port }) => protocol === "UDP" && port === DNS_PORT)?.targetPort ?? "dns";
    return running.flatMap((pod): readonly DnsServer[] => {
      if (pod.namespace !== namespace) return [];
      const named = pod.ports.find(({ name, protocol }) => protocol === "UDP" && name === target)?.port;
      const isLabelled = selects({ matchLabels: labels, matchExpressions: [] }, pod.labels);
      if (!isLabelled && (named === undefined || pod.hostNetwork)) return [];
      return [{ pod, port: typeof target === "number" ? target : (named ?? usual) }];
    });
  });
}

const [USUAL, ...OTHERS] = CLUSTER_DNS;

/** The cluster's DNS where files do not have it. */
export const STAND_INS: readonly [DnsServer, ...DnsServer[]] = [standIn(USUAL), ...OTHERS.map(standIn)];

/** Returns whether a peer of other namespaces is for the DNS of a usual cluster. */
export function isForClusterDns({ namespaceSelector, podSelector }: PodPeer): boolean {
  return STAND_INS.some(
    ({ pod: { namespace, labels } }) =>
      namespaceSelector !== undefined &&
      selects(namespaceSelector, nameLabel(namespace)) &&
      (podSelector === undefined || selects(podSelector, labels)),
  );
}

function standIn({ namespace, service, labels, port }: ClusterDns): DnsServer {
  const ports = [
    { name: "dns", protocol: "UDP", containerPort: port },
    { name: "dns-tcp", protocol: "TCP", containerPort: port },
  ];
  const verdict = judge({
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace, name: service, labels },
    spec: { containers: [{ ports }] },
  });
  if (verdict.type !== "accepted" || verdict.object.kind !== "Pod") throw new RangeError("the stand-in is a pod");
  return { pod: verdict.object, port };
}

/** Returns whether a pod may query none of some DNS servers, nor perhaps another one by its address. */
export function isCutOff({ index, servers }: Dns, pod: Pod): boolean {
  const isolating = index.pods.get(pod.key)?.subject?.profile.egress.isolating ?? [];
  return !isolating.some(({ policy }) => allowsByAddress(policy)) && !mayAsk(index, pod, servers);
}

/** Returns whether a pod may query one of some DNS servers, as far as its own policies go. */
function mayAsk(index: PolicyIndex, pod: Pod, servers: readonly DnsServer[]): boolean {
  return servers.some(({ pod: { key }, port }) => {
    const ends = { source: { type: "pod", key: pod.key }, destination: { type: "pod", key } } as const;
    const verdict = evaluatePolicy(index, { ...ends, protocol: "UDP", port });
    return verdict.kind === "impossible" || verdict.egress.isAllowed;
  });
}

/** Returns whether a rule opens port 53 to addresses: a resolver outside or on each node is for the user to know. */
function allowsByAddress({ egress }: NetworkPolicy): boolean {
  return egress.some(
    ({ peers, ports }) => peers?.some(({ type }) => type === "ipBlock") === true && (ports?.some(isDns) ?? true),
  );
}

function isDns({ protocol, port, endPort }: PolicyPort): boolean {
  if (protocol !== "UDP" || typeof port === "string") return false;
  return port === undefined || (port <= DNS_PORT && DNS_PORT <= (endPort ?? port));
}

/** The cluster's DNS, and the policies over some objects with it. */
export interface Dns {
  readonly index: PolicyIndex;
  /** Those of the objects or, where they have none, stand-ins, of which the first is the usual one. */
  readonly servers: readonly [DnsServer, ...DnsServer[]];
}

/** Returns the DNS of some objects, or stand-ins beside them where they have none. */
export function dnsOf({ index, store }: { readonly index: PolicyIndex; readonly store: ClusterStore }): Dns {
  const [first, ...more] = dnsServersIn(store.pods.values(), store.services);
  if (first !== undefined) return { index, servers: [first, ...more] };
  const standIns = new Set(STAND_INS.map(({ pod }) => pod.key));
  const others = [...store.pods.values()].filter(({ key }) => !standIns.has(key));
  const rest = [store.namespaces, store.nodes, store.networkPolicies, store.clusterNetworkPolicies];
  const objects = rest.flatMap((map): ClusterObject[] => [...map.values()]);
  const whole = [...objects, ...others, ...STAND_INS.map(({ pod }) => pod)];
  return { index: buildPolicyIndex(storeOf(whole)), servers: STAND_INS };
}

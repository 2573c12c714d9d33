import { CLUSTER_DNS, type ClusterDns } from "../../objects/cluster_dns.ts";
import { judge } from "../../objects/gate/gate.ts";
import type { Pod, PodPeer, Service } from "../../objects/model.ts";
import { nameLabel } from "../../objects/name.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { DNS_PORT } from "../../objects/semantics/policies/decide.ts";
import { selects } from "../../objects/semantics/policies/selector.ts";

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

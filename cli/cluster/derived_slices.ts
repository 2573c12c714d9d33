import { type Family, familyOf } from "../../kernel/ip/address.ts";
import type { Endpoint, EndpointPort, EndpointSlice, Labels, Pod, Service } from "../../objects/model.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { type Cluster, podAddress, UNKNOWN_NODE } from "./cluster.ts";

/** The EndpointSlices that a cluster would make from a Service's selector. */
export interface DerivedSlices {
  readonly slices: readonly EndpointSlice[];
  /** Selected pods without a port of the name that `targetPort` gives, with that name. */
  readonly withoutPort: readonly { readonly pod: string; readonly targetPort: string }[];
}

/**
 * Returns the EndpointSlices that the cluster's controller would write for a Service whose files hold none: the pods
 * that its selector selects in its namespace. A running pod counts as ready, since only a cluster knows readiness. The
 * port is `targetPort`, by number or by its name in the pod's containers, so different ports make different slices
 * (EPS-01).
 *
 * @param selected from {@link selectedPods}
 */
export function deriveSlices(
  cluster: Cluster,
  service: Service,
  selected: readonly Pod[],
  families: readonly Family[],
): DerivedSlices {
  const slices = families.flatMap((family) => {
    const groups = Map.groupBy(selected, (pod) => JSON.stringify(portsOf(service, pod)));
    return [...groups.values()].map((pods, i) => sliceOf(cluster, service, family, { pods, number: i }));
  });
  const withoutPort = selected.flatMap((pod) =>
    service.ports.flatMap(({ name, targetPort }) => {
      const isNamed = typeof targetPort === "string" && !portsOf(service, pod).some((port) => port.name === name);
      return isNamed ? [{ pod: pod.key, targetPort }] : [];
    }),
  );
  return { slices, withoutPort };
}

/** Returns the pods that can be endpoints, by namespace and sorted by name. */
export function podsByNamespace({ store }: Cluster): ReadonlyMap<string, readonly Pod[]> {
  const running = [...store.pods.values()].filter((pod) => !isFinished(pod));
  return Map.groupBy(
    running.sort((a, b) => (a.key < b.key ? -1 : 1)),
    ({ namespace }) => namespace,
  );
}

/** Returns the pods that a Service's selector selects. */
export function selectedPods(pods: readonly Pod[], selector: Labels): readonly Pod[] {
  const wanted = Object.entries(selector);
  return pods.filter(({ labels }) => wanted.every(([key, value]) => labels[key] === value));
}

/** Returns the families of the first pod that has addresses, in the order of its addresses. */
export function familiesOfPods(pods: readonly Pod[]): readonly Family[] {
  const first = pods.find(({ addresses }) => addresses.length > 0);
  return [...new Set((first?.addresses ?? []).map(familyOf))];
}

function portsOf(service: Service, pod: Pod): readonly EndpointPort[] {
  return service.ports.flatMap(({ name, protocol, targetPort }) => {
    const named = pod.ports.find((port) => port.name === targetPort && port.protocol === protocol);
    const port = typeof targetPort === "number" ? targetPort : named?.port;
    return port === undefined ? [] : [{ name, protocol, port }];
  });
}

function sliceOf(
  cluster: Cluster,
  service: Service,
  family: Family,
  { pods, number }: { readonly pods: readonly Pod[]; readonly number: number },
): EndpointSlice {
  const [first] = pods;
  const name = `${service.name}-derived-ipv${family}-${number}`;
  return {
    kind: "EndpointSlice",
    key: `${service.namespace}/${name}`,
    name,
    namespace: service.namespace,
    proxyName: service.proxyName,
    hasHeadlessLabel: false,
    serviceName: service.name,
    addressType: `IPv${family}`,
    ports: first === undefined ? [] : portsOf(service, first),
    endpoints: pods.flatMap((pod) => endpointOf(cluster, service, pod, family)),
  };
}

function endpointOf(cluster: Cluster, service: Service, pod: Pod, family: Family): readonly Endpoint[] {
  const address = podAddress(cluster, pod, family);
  if (address === undefined) return [];
  const isRunning = pod.phase === "Running";
  return [
    {
      address,
      isReady: service.publishNotReadyAddresses || (isRunning && !pod.isTerminating),
      isServing: service.publishNotReadyAddresses || isRunning,
      isTerminating: pod.isTerminating,
      // Pods that are on no node yet count as local where the sender's node is unknown, too.
      nodeName: pod.nodeName ?? UNKNOWN_NODE,
      zoneHints: undefined,
      nodeHints: undefined,
      podKey: pod.key,
    },
  ];
}

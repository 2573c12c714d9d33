import { type Address, FAMILIES, type Family, familyOf } from "../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { EndpointSlice, Labels, Service, Endpoint, EndpointPort, Pod } from "../../objects/model.ts";
import { specialClass } from "../../objects/semantics/services/address_class.ts";
import type { Manifest } from "../input/manifests.ts";
import { CLUSTER } from "../input/place.ts";
import { labelsText } from "../output/text.ts";
import { type WantedEndpoints, wantedEndpoints } from "../input/service_source.ts";
import { type Cluster, podAddress, UNKNOWN_NODE } from "./cluster.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { serviceKeyOf } from "../../objects/service_key.ts";

/** Services and their endpoints, completed where files omit something. */
export interface ServiceObjects {
  /** A Service without a cluster IP in the files has a stand-in. */
  readonly services: ReadonlyMap<string, Service>;
  readonly endpointSlices: readonly EndpointSlice[];
  /** The pods that EndpointSlices name, whether the files have them or not, by address. */
  readonly endpointPods: ReadonlyMap<Address, string>;
  /** The Services whose endpoints are derived from their selectors, by key. */
  readonly derived: ReadonlyMap<string, Derived>;
  /** The Services of files of which nothing says the endpoints: others write their EndpointSlices. */
  readonly unknown: ReadonlySet<string>;
}

export interface Derived extends DerivedSlices {
  /** Such as `app=web,tier=front`. */
  readonly selector: string;
}

/**
 * Returns the Services of a cluster as the Service evaluator takes them.
 *
 * @throws DrawbridgeError ERR_INPUT for a selector the API server would refuse
 */
export function serviceObjects(cluster: Cluster): ServiceObjects {
  const { store, manifests } = cluster;
  const written = [...store.endpointSlices.values()];
  const served = new Set(written.map(serviceKeyOf));
  // A running cluster has all slices; files may have only those that others write.
  const complete = written.filter(({ key }) => {
    const { file, manager } = manifests.get(`EndpointSlice ${key}`) ?? {};
    return file === CLUSTER || manager === CONTROLLER;
  });
  const byController = new Set(complete.map(serviceKeyOf));
  const pods = podsByNamespace(cluster);
  const services = new Map<string, Service>();
  const derived = new Map<string, Derived>();
  const unknown = new Set<string>();
  for (const service of store.services.values()) {
    const manifest = manifests.get(`Service ${service.key}`);
    const wanted = wantOf(service, manifest);
    const ofNamespace = pods.get(service.namespace) ?? [];
    const selected = wanted.selector === undefined ? [] : selectedPods(ofNamespace, wanted.selector);
    const guessed = familiesWanted(wanted, familiesOfPods(selected));
    const families = service.clusterIps.length > 0 ? service.clusterIps.map(familyOf) : guessed;
    const whole = withClusterIps(cluster, service, families.length > 0 ? families : [4]);
    services.set(service.key, whole);
    if (byController.has(service.key)) continue;
    if (wanted.selector === undefined) {
      const isUnknown = manifest?.file !== CLUSTER && service.type !== "ExternalName" && !served.has(service.key);
      if (isUnknown) unknown.add(service.key);
      continue;
    }
    const ofEndpoints = whole.isHeadless ? guessed : whole.clusterIps.map(familyOf);
    const slices = deriveSlices(cluster, service, selected, ofEndpoints.length > 0 ? ofEndpoints : [4]);
    derived.set(service.key, { ...slices, selector: labelsText(wanted.selector) });
  }
  const endpointSlices = [...written, ...[...derived.values()].flatMap(({ slices }) => slices)];
  const named = endpointSlices.flatMap(({ endpoints }) =>
    endpoints.flatMap(({ address, podKey }) => (podKey === undefined ? [] : [[address, podKey] as const])),
  );
  return { services, endpointSlices, endpointPods: new Map(named), derived, unknown };
}

/** Writes the EndpointSlices of the pods that a Service's selector selects, beside those that anyone else writes. */
const CONTROLLER = "endpointslice-controller.k8s.io";

function withClusterIps({ placeholderAddresses }: Cluster, service: Service, families: readonly Family[]): Service {
  const hasOwn = service.clusterIps.some((address) => specialClass(address) === undefined);
  if (hasOwn || service.isHeadless || service.type === "ExternalName") return service;
  const clusterIps = families.map((family) => placeholderAddresses.addressOf(`Service ${service.key}`, family));
  return { ...service, clusterIps };
}

function wantOf(service: Service, manifest: Manifest | undefined): WantedEndpoints {
  if (manifest === undefined || service.type === "ExternalName")
    return { selector: undefined, families: [], familyPolicy: "SingleStack" };
  try {
    return wantedEndpoints(manifest.source);
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    const { file, line } = manifest;
    throw new DrawbridgeError("ERR_INPUT", `${file}:${line}: Service ${service.key}: ${error.message}`);
  }
}

/** Returns the families that the API server would give a Service, in a cluster whose pods have some. */
function familiesWanted({ families, familyPolicy }: WantedEndpoints, ofPods: readonly Family[]): readonly Family[] {
  if (familyPolicy === "SingleStack") return families.length > 0 ? families : ofPods.slice(0, 1);
  const required = familyPolicy === "RequireDualStack" ? FAMILIES : [];
  return [...new Set([...families, ...ofPods, ...required])];
}

/** The EndpointSlices that a cluster would make from a Service's selector. */
interface DerivedSlices {
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
function deriveSlices(
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
function podsByNamespace({ store }: Cluster): ReadonlyMap<string, readonly Pod[]> {
  const running = [...store.pods.values()].filter((pod) => !isFinished(pod));
  return Map.groupBy(
    running.sort((a, b) => (a.key < b.key ? -1 : 1)),
    ({ namespace }) => namespace,
  );
}

/** Returns the pods that a Service's selector selects. */
function selectedPods(pods: readonly Pod[], selector: Labels): readonly Pod[] {
  const wanted = Object.entries(selector);
  return pods.filter(({ labels }) => wanted.every(([key, value]) => labels[key] === value));
}

/** Returns the families of the first pod that has addresses, in the order of its addresses. */
function familiesOfPods(pods: readonly Pod[]): readonly Family[] {
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

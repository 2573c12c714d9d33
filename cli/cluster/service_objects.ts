import { type Address, FAMILIES, type Family, familyOf } from "../../kernel/ip/address.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { EndpointSlice, Labels, Service } from "../../objects/model.ts";
import { specialClass } from "../../objects/semantics/services/address_class.ts";
import type { Manifest } from "../input/manifests.ts";
import { CLUSTER } from "../input/place.ts";
import { type WantedEndpoints, wantedEndpoints } from "../input/service_source.ts";
import type { Cluster } from "./cluster.ts";
import { type DerivedSlices, deriveSlices, familiesOfPods, podsByNamespace, selectedPods } from "./derived_slices.ts";

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
  const served = new Set(written.map(({ namespace, serviceName }) => `${namespace}/${serviceName}`));
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
    if (served.has(service.key)) continue;
    if (wanted.selector === undefined) {
      if (manifest?.file !== CLUSTER && service.type !== "ExternalName") unknown.add(service.key);
      continue;
    }
    const ofEndpoints = whole.isHeadless ? familiesOfPods(selected) : whole.clusterIps.map(familyOf);
    const slices = deriveSlices(cluster, service, selected, ofEndpoints.length > 0 ? ofEndpoints : [4]);
    derived.set(service.key, { ...slices, selector: selectorText(wanted.selector) });
  }
  const endpointSlices = [...written, ...[...derived.values()].flatMap(({ slices }) => slices)];
  const named = endpointSlices.flatMap(({ endpoints }) =>
    endpoints.flatMap(({ address, podKey }) => (podKey === undefined ? [] : [[address, podKey] as const])),
  );
  return { services, endpointSlices, endpointPods: new Map(named), derived, unknown };
}

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

function selectorText(selector: Labels): string {
  return Object.entries(selector)
    .map(([key, value]) => `${key}=${value}`)
    .join(",");
}

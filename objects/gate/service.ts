import type { Address } from "../../kernel/ip/address.ts";
import type { LoadBalancerIngress, Service, ServiceCidr, ServicePort } from "../model.ts";
import { expectLabelName, expectPort, expectPortOrName, readAnnotations } from "../name.ts";
import { expectString, type Reader, expectAddress, expectNetwork } from "./reader.ts";
import { readCreation, readMetadata, readNamespacedMetadata, readUid, readProxyLabels } from "./metadata.ts";
import { PROTOCOLS } from "../protocol.ts";

const TYPES = ["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"] as const;
const TRAFFIC_POLICIES = ["Cluster", "Local"] as const;
/** The API server's default and limit, a day. */
const AFFINITY_SECONDS = 10_800;
const LONGEST_AFFINITY_SECONDS = 86_400;

/**
 * Reads a v1 Service with the API server's defaults. An invalid address, range or port is omitted and reported.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readService(object: Reader): Service {
  const { reader, namespace, name, key } = readNamespacedMetadata(object);
  const spec = object.object("spec");
  // Fields are copied by name: there are thousands of Services, and spreading into an object costs memory for each.
  const { proxyName, hasHeadlessLabel } = readProxyLabels(reader);
  const { clusterIps, isHeadless } = readClusterIps(spec);
  return Object.freeze({
    kind: "Service",
    key,
    name,
    namespace,
    uid: readUid(reader),
    createdAt: readCreation(reader),
    proxyName,
    hasHeadlessLabel,
    annotations: readAnnotations(reader),
    type: spec.oneOfOrEmpty("type", TYPES, "ClusterIP"),
    clusterIps,
    isHeadless,
    ports: spec.eachObject("ports", readPort),
    externalIps: spec.each("externalIPs", expectAddress),
    loadBalancerIngress: object.object("status").object("loadBalancer").eachObject("ingress", readIngress),
    loadBalancerSourceRanges: readSourceRanges(spec),
    externalTrafficPolicy: spec.oneOfOrEmpty("externalTrafficPolicy", TRAFFIC_POLICIES, "Cluster"),
    internalTrafficPolicy: spec.oneOf("internalTrafficPolicy", TRAFFIC_POLICIES, "Cluster"),
    // The API server writes 0 for "none" into objects of a typed client.
    healthCheckNodePort: spec.optionalInteger("healthCheckNodePort", 0, 65_535) || undefined,
    affinitySeconds: readAffinity(spec),
    publishNotReadyAddresses: spec.boolean("publishNotReadyAddresses", false),
    trafficDistribution: spec.optionalString("trafficDistribution", 63),
  });
}

/** Reads `clusterIPs`, or the older `clusterIP` where a file has only that. Only "None" means headless (HL-01). */
function readClusterIps(spec: Reader): { readonly clusterIps: readonly Address[]; readonly isHeadless: boolean } {
  const single = spec.optionalString("clusterIP") ?? "";
  const decode = (value: unknown, field: string): Address | undefined =>
    value === "None" || value === "" ? undefined : expectAddress(value, field);
  const isHeadless = single === "None" || (spec.optionalList("clusterIPs") ?? [])[0] === "None";
  if (isHeadless) return { clusterIps: Object.freeze([]), isHeadless };
  if (spec.get("clusterIPs") !== undefined) return { clusterIps: spec.each("clusterIPs", decode), isHeadless };
  const address = spec.attempt(() => decode(single, spec.path("clusterIP")));
  return { clusterIps: Object.freeze(address === undefined ? [] : [address]), isHeadless };
}

function readPort(entry: Reader): ServicePort {
  const name = entry.optionalString("name") ?? "";
  const port = expectPort(entry.get("port"), entry.path("port"));
  const target = entry.get("targetPort");
  const hasTarget = target !== undefined && target !== 0 && target !== "";
  return Object.freeze({
    name: name === "" ? "" : expectLabelName(name, entry.path("name")),
    protocol: entry.oneOfOrEmpty("protocol", PROTOCOLS, "TCP"),
    port,
    targetPort: hasTarget ? expectPortOrName(target, entry.path("targetPort")) : port,
    nodePort: entry.optionalInteger("nodePort", 0, 65_535) || undefined,
  });
}

/** Reads an ingress; one with only a hostname is for DNS and is omitted. `ipMode` defaults to VIP (KEP-1860). */
function readIngress(entry: Reader): LoadBalancerIngress | undefined {
  const ip = entry.get("ip");
  if (ip === undefined || ip === "") return undefined;
  return Object.freeze({
    address: expectAddress(ip, entry.path("ip")),
    ipMode: entry.oneOf("ipMode", ["VIP", "Proxy"], "VIP"),
  });
}

function readSourceRanges(spec: Reader): Service["loadBalancerSourceRanges"] {
  if ((spec.optionalList("loadBalancerSourceRanges") ?? []).length === 0) return undefined;
  return spec.each("loadBalancerSourceRanges", (value, field) =>
    // The API server accepts blanks around a range, which older manifests have.
    expectNetwork(typeof value === "string" ? value.trim() : value, field),
  );
}

function readAffinity(spec: Reader): number | undefined {
  if (spec.oneOfOrEmpty("sessionAffinity", ["None", "ClientIP"], "None") === "None") return undefined;
  const configuration = spec.object("sessionAffinityConfig").object("clientIP");
  return configuration.optionalInteger("timeoutSeconds", 1, LONGEST_AFFINITY_SECONDS) ?? AFFINITY_SECONDS;
}

/** One for each family. */
const MOST_CIDRS = 2;

/**
 * Reads a networking.k8s.io/v1 ServiceCIDR (KEP-1880). An invalid range is omitted and reported.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readServiceCidr(object: Reader): ServiceCidr {
  const { name } = readMetadata(object);
  const spec = object.object("spec");
  const cidrs = spec.each("cidrs", (value, field) => expectNetwork(expectString(value, field), field), MOST_CIDRS);
  return Object.freeze({ kind: "ServiceCIDR", key: name, name, cidrs });
}

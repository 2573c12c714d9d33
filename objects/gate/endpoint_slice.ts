import { type Address, familyOf } from "../../kernel/ip/address.ts";
import type { Endpoint, EndpointPort, EndpointSlice } from "../model.ts";
import { expectLabelName, expectLabelValue, expectName, expectPort } from "../name.ts";
import { expectString, invalid, type Reader, expectAddress } from "./reader.ts";
import { readNamespacedMetadata, readProxyLabels } from "./metadata.ts";
import { PROTOCOLS } from "../protocol.ts";

const SERVICE_NAME_LABEL = "kubernetes.io/service-name";
/** The API server's own limits (discovery.k8s.io/v1). */
const MOST_ENDPOINTS = 1000;
const MOST_ADDRESSES = 100;
const MOST_PORTS = 20_000;
const MOST_HINTS = 8;

/**
 * Reads a discovery.k8s.io/v1 EndpointSlice. An invalid endpoint or port is omitted and reported.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readEndpointSlice(object: Reader): EndpointSlice {
  const { reader, namespace, name, key } = readNamespacedMetadata(object);
  const labels = reader.object("labels");
  const serviceName = labels.get(SERVICE_NAME_LABEL);
  const addressType = readAddressType(object);
  // Fields are copied by name: there are thousands of slices, and spreading into an object costs memory for each.
  const { proxyName, hasHeadlessLabel } = readProxyLabels(reader);
  return Object.freeze({
    kind: "EndpointSlice",
    key,
    name,
    namespace,
    proxyName,
    hasHeadlessLabel,
    serviceName: serviceName === undefined ? undefined : expectLabelName(serviceName, labels.path(SERVICE_NAME_LABEL)),
    addressType,
    ports: object.eachObject("ports", readPort, MOST_PORTS),
    endpoints:
      addressType === "FQDN"
        ? Object.freeze([])
        : object.eachObject("endpoints", (entry) => readEndpoint(entry, addressType), MOST_ENDPOINTS),
  });
}

function readAddressType(object: Reader): EndpointSlice["addressType"] {
  const type = object.string("addressType");
  if (type === "IPv4" || type === "IPv6" || type === "FQDN") return type;
  throw invalid("addressType", type, "IPv4, IPv6 or FQDN");
}

function readPort(entry: Reader): EndpointPort {
  const name = entry.optionalString("name") ?? "";
  const port = entry.get("port");
  return Object.freeze({
    name: name === "" ? "" : expectLabelName(name, entry.path("name")),
    protocol: entry.oneOf("protocol", PROTOCOLS, "TCP"),
    port: port === undefined ? undefined : expectPort(port, entry.path("port")),
  });
}

/** Reads an endpoint. Absent conditions mean ready, serving and not terminating (EPS-05). */
function readEndpoint(entry: Reader, addressType: "IPv4" | "IPv6"): Endpoint {
  const conditions = entry.object("conditions");
  const hints = entry.object("hints");
  const nodeName = entry.get("nodeName");
  return Object.freeze({
    address: readAddress(entry, addressType),
    isReady: conditions.boolean("ready", true),
    isServing: conditions.boolean("serving", true),
    isTerminating: conditions.boolean("terminating", false),
    nodeName: nodeName === undefined || nodeName === "" ? undefined : expectName(nodeName, entry.path("nodeName")),
    zoneHints: readHints(hints, "forZones", expectLabelValue),
    nodeHints: readHints(hints, "forNodes", expectName),
    // It only informs people; no packet is routed by it.
    podKey: entry.attempt(() => readPodKey(entry.optionalObject("targetRef"))),
  });
}

/** Returns the first address, after checking all of them. */
function readAddress(entry: Reader, addressType: "IPv4" | "IPv6"): Address {
  const family = addressType === "IPv4" ? 4 : 6;
  const decode = (value: unknown, field: string): Address => {
    const address = expectAddress(value, field);
    if (familyOf(address) !== family) throw invalid(field, value, `an ${addressType} address, the slice's addressType`);
    return address;
  };
  const [first] = entry.all("addresses", decode, MOST_ADDRESSES);
  if (first === undefined) throw invalid(entry.path("addresses"), undefined, "at least one address");
  return first;
}

function readHints(
  hints: Reader,
  key: string,
  expect: (value: unknown, field: string) => string,
): readonly string[] | undefined {
  if ((hints.optionalList(key, MOST_HINTS) ?? []).length === 0) return undefined;
  return hints.eachObject(key, (hint) => expect(hint.get("name"), hint.path("name")));
}

function readPodKey(target: Reader | undefined): string | undefined {
  if (target === undefined || target.get("kind") !== "Pod") return undefined;
  const namespace = expectLabelName(target.get("namespace") ?? "default", target.path("namespace"));
  return `${namespace}/${expectName(expectString(target.get("name"), target.path("name")), target.path("name"))}`;
}

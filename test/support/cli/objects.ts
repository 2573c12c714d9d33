import { readObjects } from "../../../objects/yaml/documents.ts";
import { memoryFiles, type Outcome, runCli } from "./cli.ts";

// Each function returns an object in one line of YAML's flow style, and the line that ends its document: texts are
// joined by `+`, and the object number n, from 0, begins at line 2n + 1. A key is `shop/web`.

const API_VERSIONS: Readonly<Record<string, string>> = {
  NetworkPolicy: "networking.k8s.io/v1",
  ClusterNetworkPolicy: "policy.networking.k8s.io/v1beta1",
  AdminNetworkPolicy: "policy.networking.k8s.io/v1alpha1",
  BaselineAdminNetworkPolicy: "policy.networking.k8s.io/v1alpha1",
  EndpointSlice: "discovery.k8s.io/v1",
  Deployment: "apps/v1",
  StatefulSet: "apps/v1",
  DaemonSet: "apps/v1",
  ReplicaSet: "apps/v1",
  Job: "batch/v1",
  CronJob: "batch/v1",
};

/** Returns an object of any group, from its metadata and its other members. */
export function object(apiVersion: string, kind: string, metadata: string, rest = ""): string {
  return `{ apiVersion: ${apiVersion}, kind: ${kind}, metadata: { ${metadata} }${rest === "" ? "" : `, ${rest}`} }\n---\n`;
}

/** Returns an object of a known kind, from its metadata and its other members. */
export function manifest(kind: string, metadata: string, rest = ""): string {
  return object(API_VERSIONS[kind] ?? "v1", kind, metadata, rest);
}

/** Returns the metadata of a key. */
export function named(key: string, more = ""): string {
  const [place = "", name = ""] = key.split("/");
  return `name: ${name}, namespace: ${place}${more === "" ? "" : `, ${more}`}`;
}

/**
 * Returns a running pod with a label `app`, the addresses (with a space between two), and the ports that its container
 * names.
 *
 * @param app the label's value, the pod's name without it
 */
export function pod(
  key: string,
  ips = "",
  { app = "", labels = "", ports = "", spec = "", metadata = "" } = {},
): string {
  const own = `app: ${app === "" ? (key.split("/")[1] ?? "") : app}${labels === "" ? "" : `, ${labels}`}`;
  const addresses = ips.split(" ").map((ip) => `{ ip: "${ip}" }`);
  return manifest(
    "Pod",
    named(key, `labels: { ${own} }${metadata === "" ? "" : `, ${metadata}`}`),
    `spec: { containers: [{ name: c, ports: [${ports}] }]${spec === "" ? "" : `, ${spec}`} }, ` +
      `status: { phase: Running${ips === "" ? "" : `, podIPs: [${addresses.join(", ")}]`} }`,
  );
}

/** Returns the member of a pod's metadata that names its controller. */
export function ownedBy(kind: string, name: string): string {
  return `ownerReferences: [{ apiVersion: ${API_VERSIONS[kind] ?? "v1"}, kind: ${kind}, name: ${name}, controller: true }]`;
}

/** Returns a workload whose template has the label `app`, the workload's name without it. */
export function workload(kind: string, key: string, app = key.split("/")[1] ?? ""): string {
  const template = `{ metadata: { labels: { app: ${app} } }, spec: { containers: [{ name: c, image: i }] } }`;
  return manifest(kind, named(key), `spec: { template: ${template} }`);
}

export function service(key: string, app: string, ports: string, more = ""): string {
  const spec = `selector: { app: ${app} }, ports: [${ports}]${more === "" ? "" : `, ${more}`}`;
  return manifest("Service", named(key), `spec: { ${spec} }`);
}

export function networkPolicy(key: string, spec: string): string {
  return manifest("NetworkPolicy", named(key), `spec: { ${spec} }`);
}

/** Returns a ClusterNetworkPolicy of the tier Admin with priority 1, for all pods. */
export function clusterPolicy(name: string, rules: string): string {
  const spec = `tier: Admin, priority: 1, subject: { namespaces: {} }, ${rules}`;
  return manifest("ClusterNetworkPolicy", `name: ${name}`, `spec: { ${spec} }`);
}

export function namespace(name: string, labels = ""): string {
  return manifest("Namespace", `name: ${name}, labels: { ${labels} }`);
}

export function node(name: string, ip = ""): string {
  const address = `status: { addresses: [{ type: InternalIP, address: ${ip} }] }`;
  return manifest("Node", `name: ${name}`, ip === "" ? "" : address);
}

/** The start of a file of expectations, as `policy test` reads them. */
export const EXPECTATIONS = "apiVersion: drawbridge.dev/v1alpha1\nkind: PolicyTest\ntests:\n";

/** Returns an expectation of such a file. @param port may be "" */
export function expectation(from: string, to: string, port: string, expect: string, more = ""): string {
  const asked = port === "" ? "" : `port: "${port}", `;
  return `  - { from: "${from}", to: "${to}", ${asked}expect: ${expect}, reason: "so it is"${more} }\n`;
}

/** Returns the objects of a text. */
export function objectsIn(text: string): readonly Readonly<Record<string, unknown>>[] {
  return [...readObjects(text, "a.yaml")].flatMap((one) =>
    typeof one === "object" && one !== null ? [{ ...one }] : [],
  );
}

/** Runs a command on one file. */
export function ask(text: string, ...args: readonly string[]): Promise<Outcome> {
  return runCli([...args, "-f", "a.yaml"], memoryFiles({ "a.yaml": text }));
}

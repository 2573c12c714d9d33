import { stringify } from "yaml";
import { listOf } from "../services/manifest.ts";

/** A function that places a hostile text into a Kubernetes object, whose other fields are valid. */
type Placement = (text: string, index: number) => object;

const core = (kind: string, metadata: object, rest: object = {}): object => ({
  apiVersion: "v1",
  kind,
  metadata,
  ...rest,
});

const pod = (index: number, metadata: object, container: object = {}, spec: object = {}, podIP = "10.244.1.77") =>
  core(
    "Pod",
    { name: `pod-${index}`, namespace: "default", ...metadata },
    {
      spec: { nodeName: "node-1", ...spec, containers: [{ name: "c", ports: [{ containerPort: 80, ...container }] }] },
      status: { phase: "Running", podIP, podIPs: [{ ip: podIP }] },
    },
  );

const service = (index: number, port: object, spec: object = {}, metadata: object = {}): object =>
  core(
    "Service",
    { name: `service-${index}`, namespace: "default", ...metadata },
    {
      spec: {
        clusterIP: "10.96.0.10",
        clusterIPs: ["10.96.0.10"],
        ports: [{ name: "http", port: 80, ...port }],
        ...spec,
      },
    },
  );

const slice = (index: number, endpoint: object, port: object = {}, labels: object = {}): object => ({
  apiVersion: "discovery.k8s.io/v1",
  kind: "EndpointSlice",
  metadata: {
    name: `slice-${index}`,
    namespace: "default",
    labels: { "kubernetes.io/service-name": "web", ...labels },
  },
  addressType: "IPv4",
  ports: [{ name: "http", port: 80, ...port }],
  endpoints: [{ addresses: ["10.244.1.77"], ...endpoint }],
});

const policy = (index: number, spec: object, metadata: object = {}): object => ({
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: `policy-${index}`, namespace: "default", ...metadata },
  spec: { podSelector: {}, policyTypes: ["Ingress"], ...spec },
});

/** Every place at which a foreign text reaches Drawbridge from the API. */
const PLACEMENTS: readonly Placement[] = [
  (name, i) => pod(i, { name }),
  (namespace, i) => pod(i, { namespace }),
  (uid, i) => pod(i, { uid }),
  (text, i) => pod(i, { labels: { [text]: "x" } }),
  (text, i) => pod(i, { labels: { app: text } }),
  (text, i) => pod(i, { annotations: { [`drawbridge.dev/${text}`]: "x" } }),
  (text, i) => pod(i, { annotations: { "drawbridge.dev/x": text, [text]: text } }),
  (name, i) => pod(i, {}, { name }),
  (containerPort, i) => pod(i, {}, { containerPort }),
  (text, i) => pod(i, {}, { name: "http", containerPort: Number(text) }),
  (protocol, i) => pod(i, {}, { name: "http", protocol }),
  (nodeName, i) => pod(i, {}, {}, { nodeName }),
  (podIP, i) => pod(i, {}, {}, {}, podIP),
  (name, i) => service(i, {}, {}, { name }),
  (text, i) => service(i, {}, {}, { labels: { "service.kubernetes.io/service-proxy-name": text } }),
  (name, i) => service(i, { name }),
  (port, i) => service(i, { port }),
  (nodePort, i) => service(i, { nodePort }, { type: "NodePort" }),
  (targetPort, i) => service(i, { targetPort }),
  (text, i) => service(i, {}, { clusterIP: text, clusterIPs: [text] }),
  (text, i) => service(i, {}, { externalIPs: [text], loadBalancerSourceRanges: [text] }),
  (type, i) => service(i, {}, { type }),
  (text, i) => slice(i, { addresses: [text] }),
  (text, i) => slice(i, { nodeName: text }),
  (zone, i) => slice(i, { zone, hints: { forZones: [{ name: zone }] } }),
  (name, i) => slice(i, { targetRef: { kind: "Pod", namespace: "default", name } }),
  (name, i) => slice(i, {}, { name }),
  (port, i) => slice(i, {}, { port }),
  (text, i) => slice(i, {}, {}, { "kubernetes.io/service-name": text }),
  (name, i) => policy(i, {}, { name }),
  (namespace, i) => policy(i, {}, { namespace }),
  (text, i) => policy(i, { podSelector: { matchLabels: { [text]: text } } }),
  (key, i) => policy(i, { podSelector: { matchExpressions: [{ key, operator: "In", values: [key] }] } }),
  (operator, i) => policy(i, { podSelector: { matchExpressions: [{ key: "a", operator, values: ["b"] }] } }),
  (port, i) => policy(i, { ingress: [{ ports: [{ port }] }] }),
  (cidr, i) => policy(i, { ingress: [{ from: [{ ipBlock: { cidr, except: [cidr] } }] }] }),
  (text, i) => policy(i, { policyTypes: [text] }),
  (name) => core("Namespace", { name }),
  (text, i) => core("Namespace", { name: `namespace-${i}`, labels: { [text]: text } }),
  (text) => core("Node", { name: "hostile", labels: { [text]: text } }),
  (text) => core("Node", { name: "hostile" }, { spec: { podCIDR: text, podCIDRs: [text] } }),
  (address) => core("Node", { name: "hostile" }, { status: { addresses: [{ type: "InternalIP", address }] } }),
  (kind, i) => ({ ...pod(i, {}), kind }),
  (apiVersion, i) => ({ ...pod(i, {}), apiVersion }),
];

/** Ways to insert a text into a file as it is; the result may be neither YAML nor JSON. */
const PASTES: readonly ((text: string) => { readonly extension: string; readonly text: string })[] = [
  (text) => ({
    extension: "yaml",
    text: `apiVersion: v1\nkind: Pod\nmetadata: {namespace: default}\n${text}\n`,
  }),
  (text) => ({
    extension: "yml",
    text: `apiVersion: v1\nkind: Pod\nmetadata:\n  name: ${text}\n  namespace: default\n`,
  }),
  (text) => ({ extension: "yaml", text: `apiVersion: v1\nkind: Pod\nmetadata:\n  name: "${text}"\n` }),
  (text) => ({
    extension: "yaml",
    text: `apiVersion: v1\nkind: Namespace\nmetadata:\n  name: a\n  labels:\n    ${text}: x\n`,
  }),
  (text) => ({ extension: "json", text: `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"${text}"}}` }),
  (text) => ({ extension: "json", text: `{"apiVersion":"v1","kind":"Pod",${text}:"x"}` }),
  (text) => ({ extension: "json", text }),
];

/** A file of objects, without a name. */
export interface ObjectText {
  readonly extension: string;
  readonly text: string;
}

/** Returns a list in JSON, with one object for each text, each text at another place. */
export function jsonFile(texts: readonly string[], first: number): ObjectText {
  const items = texts.map((text, i) => place(text, first + i));
  return { extension: "json", text: listOf(items) };
}

/** Returns the same objects as documents of YAML. */
export function yamlFile(texts: readonly string[], first: number): ObjectText {
  return { extension: "yaml", text: texts.map((text, i) => stringify(place(text, first + i))).join("---\n") };
}

/** Returns a file into which a text is inserted. */
export function pastedFile(text: string, index: number): ObjectText {
  const paste = PASTES[index % PASTES.length];
  if (paste === undefined) throw new RangeError("no paste");
  return paste(text);
}

function place(text: string, index: number): object {
  const placement = PLACEMENTS[index % PLACEMENTS.length];
  if (placement === undefined) throw new RangeError("no placement");
  return placement(text, index);
}

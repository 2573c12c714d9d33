import { type Address, type Family, formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { type Cidr, formatCidr, hostCidr, parseCidr } from "../../../kernel/ip/cidr.ts";
import type { RawObject } from "../../apiserver/storage.ts";

/** The namespace of all Services, and of their pods. */
const NAMESPACE = "default";

/** The port of pods' responders, and of all EndpointSlices. */
export const TARGET_PORT = 8080;
const SERVICE_PORT = 80;
const NODE_PORT = 30_080;
const LOCAL_NODE_PORT = 30_081;

/** The networks of Services' own addresses, which the router sends to node1. */
export const SERVICE_NETWORKS: readonly Cidr[] = [
  "10.96.0.0/24",
  "fd00:96::/112",
  "203.0.113.0/24",
  "2001:db8:5::/64",
].map((text) => parseCidr(text));

type Addresses = Readonly<Record<Family, Address>>;

/** One line of the table: the address to which a client connects. */
export interface Frontend {
  /** A unique name for people. */
  readonly name: string;
  readonly protocol: "tcp" | "udp" | "sctp";
  readonly port: number;
  /** One address, or those of all pods where a name stands for them. */
  readonly addresses: Readonly<Record<Family, readonly Address[]>>;
}

/** A pod that can be an endpoint. */
export interface EndpointPod {
  readonly name: string;
  readonly node: string;
  readonly addresses: Addresses;
}

/** The parts of the world that the objects depend on. */
export interface Place {
  readonly pods: readonly EndpointPod[];
  /** The addresses of node1, at which node ports are used. */
  readonly nodeAddresses: Addresses;
  /** The addresses of a machine outside of the cluster, which is the one that the load balancer allows. */
  readonly outside: Addresses;
}

/** Services of each kind, as objects and as the addresses to which clients connect. */
export interface ServiceShow {
  readonly frontends: readonly Frontend[];
  readonly manifests: readonly RawObject[];
}

/** The endpoints of most Services: two pods of node1, one of node2. */
const EVERYWHERE = ["pod-b", "pod-c", "pod-e"];

const clusterIps = (number: number): Addresses => ({
  4: parseAddress(`10.96.0.${number}`),
  6: parseAddress(`fd00:96::${number}`),
});
const publicIps = (number: number): Addresses => ({
  4: parseAddress(`203.0.113.${number}`),
  6: parseAddress(`2001:db8:5::${number}`),
});

/** Returns a Service of each kind that the demo shows (SVC, NODE, LB, XIP, SA, ETP, ITP, NE, HL, EN, POD-12). */
export function serviceShow(place: Place): ServiceShow {
  const frontends: Frontend[] = [];
  const manifests: RawObject[] = [];
  const show = (
    name: string,
    addresses: Addresses,
    port = SERVICE_PORT,
    protocol: Frontend["protocol"] = "tcp",
  ): void => void frontends.push({ name, protocol, port, addresses: { 4: [addresses[4]], 6: [addresses[6]] } });
  const publish = (name: string, pods: readonly string[], spec: object, more: ServiceFields = {}): void =>
    void manifests.push(...serviceManifests(place, name, pods, spec, more));
  const inCluster = (number: number): object => ({ clusterIPs: textsOf(clusterIps(number)) });

  publish("web", EVERYWHERE, inCluster(1), { protocols: ["tcp", "udp", "sctp"] });
  show("ClusterIP", clusterIps(1));
  show("ClusterIP, UDP", clusterIps(1), SERVICE_PORT, "udp");
  show("ClusterIP, SCTP", clusterIps(1), SERVICE_PORT, "sctp");

  publish("self", ["pod-a"], inCluster(2));
  show("ClusterIP of pod-a", clusterIps(2));

  publish("sticky", ["pod-b", "pod-c"], { ...inCluster(3), sessionAffinity: "ClientIP" });
  show("ClusterIP, affinity", clusterIps(3));

  publish("near", ["pod-b"], { ...inCluster(4), internalTrafficPolicy: "Local" });
  show("ClusterIP, Local", clusterIps(4));

  publish("empty", [], inCluster(5));
  show("ClusterIP, no pods", clusterIps(5));

  publish("port", EVERYWHERE, { ...inCluster(6), type: "NodePort" }, { nodePort: NODE_PORT });
  show("NodePort", place.nodeAddresses, NODE_PORT);

  const local = { ...inCluster(7), type: "NodePort", externalTrafficPolicy: "Local" };
  publish("port-local", ["pod-b", "pod-e"], local, { nodePort: LOCAL_NODE_PORT });
  show("NodePort, Local", place.nodeAddresses, LOCAL_NODE_PORT);

  const ranges = {
    type: "LoadBalancer",
    loadBalancerSourceRanges: FAMILIES.map((family) => formatCidr(hostCidr(place.outside[family]))),
  };
  const ingress = textsOf(publicIps(8)).map((ip) => ({ ip }));
  publish("balanced", EVERYWHERE, { ...inCluster(8), ...ranges }, { status: { loadBalancer: { ingress } } });
  show("LoadBalancer, ranges", publicIps(8));

  publish("external", EVERYWHERE, { ...inCluster(9), externalIPs: textsOf(publicIps(9)) });
  show("externalIPs", publicIps(9));

  publish("headless", EVERYWHERE, { clusterIP: "None" });
  const pods = place.pods.filter(({ name }) => EVERYWHERE.includes(name)).map(({ addresses }) => addresses);
  const addresses = { 4: pods.map((own) => own[4]), 6: pods.map((own) => own[6]) };
  frontends.push({ name: "headless", protocol: "tcp", port: TARGET_PORT, addresses });

  // The object has an address and a pod, both of which an ExternalName must ignore: packets to the outside keep their
  // destination.
  const away = { type: "ExternalName", externalName: "outside.example", externalIPs: textsOf(place.outside) };
  publish("away", ["pod-b"], away, { port: TARGET_PORT });
  show("ExternalName", place.outside, TARGET_PORT);

  return { frontends, manifests };
}

interface ServiceFields {
  readonly protocols?: readonly Frontend["protocol"][];
  readonly port?: number;
  readonly nodePort?: number;
  readonly status?: object;
}

function serviceManifests(
  { pods }: Place,
  name: string,
  endpoints: readonly string[],
  spec: object,
  { protocols = ["tcp"], port = SERVICE_PORT, nodePort, status }: ServiceFields,
): readonly RawObject[] {
  const ports = protocols.map((protocol) => ({ name: protocol, protocol: protocol.toUpperCase() }));
  const chosen = pods.filter((pod) => endpoints.includes(pod.name));
  return [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, namespace: NAMESPACE },
      spec: { ...spec, ports: ports.map((own) => ({ ...own, port, ...(nodePort === undefined ? {} : { nodePort }) })) },
      ...(status === undefined ? {} : { status }),
    },
    ...FAMILIES.map((family) => ({
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: {
        name: `${name}-ipv${family}`,
        namespace: NAMESPACE,
        labels: { "kubernetes.io/service-name": name },
      },
      addressType: `IPv${family}`,
      ports: ports.map((own) => ({ ...own, port: TARGET_PORT })),
      endpoints: chosen.map(({ addresses, node }) => ({
        addresses: [formatAddress(addresses[family])],
        nodeName: node,
      })),
    })),
  ];
}

function textsOf(addresses: Addresses): readonly string[] {
  return FAMILIES.map((family) => formatAddress(addresses[family]));
}

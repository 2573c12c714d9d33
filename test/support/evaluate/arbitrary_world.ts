import * as fc from "fast-check";
import type { Address } from "../../../kernel/ip/address.ts";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import type { Packet } from "../../../policyd/services/evaluate/packet.ts";
import type { ServiceWorld } from "../../../policyd/services/evaluate/world.ts";
import { ipv6Twin } from "./family_twin.ts";
import { storeOf } from "./store.ts";

/** A cluster with its Services, and a packet on node n1. */
export interface ServiceCase {
  readonly world: ServiceWorld;
  readonly packet: Packet;
}

/** Few of each, so that what belongs together meets often, and so does what must not. */
const CLUSTER_IPS = ["10.96.0.1", "10.96.0.2", "10.96.0.3", "10.96.0.4"];
const EXTERNAL_IPS = ["192.0.2.1", "192.0.2.2", "10.240.0.5"];
const BALANCER_IPS = ["203.0.113.1", "203.0.113.2"];
const NODE_IPS = ["10.240.0.5", "10.244.1.1", "192.0.2.77"];
const LOCAL_PODS = ["10.244.1.5", "10.244.1.6", "10.244.1.9"];
const REMOTE_PODS = ["10.244.0.5", "10.244.0.6", "10.244.0.7"];
const OUTSIDE = ["10.188.0.4", "198.51.100.9"];
const PORTS = [80, 443];
const NODE_PORTS = [30_001, 30_002, 30_003];
const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const;
const RANGES = ["10.188.0.0/16", "10.240.0.0/24", "198.51.100.0/24"];

const ENFORCED = { "drawbridge.dev/enforce-source-ranges": "true" };

const policy = fc.constantFrom("Cluster", "Local");
const some = (values: readonly string[]) => fc.uniqueArray(fc.constantFrom(...values), { maxLength: 2 });
const rarely = fc.integer({ min: 1, max: 12 }).map((number) => number === 7);
const often = fc.integer({ min: 1, max: 20 }).map((number) => number % 5 !== 0);

const conditions = fc.constantFrom(
  undefined,
  { ready: true },
  { ready: true, serving: true, terminating: false },
  { ready: true, serving: true, terminating: false },
  { ready: true, serving: true, terminating: false },
  { ready: false, serving: true, terminating: true },
  { ready: false, serving: false, terminating: true },
  { ready: false },
);

const hints = fc.oneof(
  { weight: 2, arbitrary: fc.constant({}) },
  {
    weight: 3,
    arbitrary: fc.record(
      {
        forZones: fc.constantFrom([{ name: "a" }], [{ name: "b" }], [{ name: "a" }, { name: "b" }]),
        forNodes: fc.constantFrom([{ name: "n1" }], [{ name: "n2" }]),
      },
      { requiredKeys: [] },
    ),
  },
);

const endpoint = fc
  .record({
    place: fc.oneof(
      { weight: 4, arbitrary: fc.record({ address: fc.constantFrom(...LOCAL_PODS), nodeName: fc.constant("n1") }) },
      { weight: 4, arbitrary: fc.record({ address: fc.constantFrom(...REMOTE_PODS), nodeName: fc.constant("n2") }) },
      {
        weight: 1,
        arbitrary: fc.constantFrom(
          { address: "10.4.5.6", nodeName: undefined },
          { address: "169.254.1.1", nodeName: undefined },
        ),
      },
    ),
    conditions,
    hints,
  })
  .map(({ place: { address, nodeName }, ...rest }) => ({ addresses: [address], nodeName, ...rest }));

const endpointList = fc.oneof(
  { weight: 6, arbitrary: fc.array(endpoint, { minLength: 1, maxLength: 4 }) },
  // Those of one kind, as the control plane writes hints: all endpoints have them or none.
  {
    weight: 3,
    arbitrary: fc
      .record({
        list: fc.array(endpoint, { minLength: 2, maxLength: 4 }),
        hint: fc.constantFrom("forZones", "forNodes"),
      })
      .map(({ list, hint }) => list.map((one) => ({ ...one, hints: { [hint]: ownHint(hint, one.nodeName) } }))),
  },
);

function ownHint(hint: string, nodeName: string | undefined): readonly object[] {
  if (hint === "forNodes") return [{ name: nodeName ?? "n2" }];
  return [{ name: nodeName === "n1" ? "a" : "b" }];
}

const slice = fc.record({ port: fc.constantFrom(8080, 9090), endpoints: endpointList });

const service = fc.record({
  clusterIP: fc.constantFrom(...CLUSTER_IPS),
  isHeadless: rarely,
  isOthers: rarely,
  protocols: fc.uniqueArray(fc.constantFrom(...PROTOCOLS), { minLength: 1, maxLength: 2 }),
  port: fc.constantFrom(...PORTS),
  nodePort: fc.constantFrom(0, ...NODE_PORTS),
  externalIPs: some(EXTERNAL_IPS),
  ingress: some(BALANCER_IPS),
  ipMode: fc.constantFrom("VIP", "VIP", "VIP", "Proxy"),
  ranges: fc.constantFrom([], [], [], [], RANGES.slice(0, 2), RANGES.slice(0, 1), RANGES.slice(2)),
  externalTrafficPolicy: policy,
  internalTrafficPolicy: policy,
  isEnforced: rarely,
  hasAffinity: rarely,
  slices: fc.oneof(
    { weight: 1, arbitrary: fc.array(slice, { maxLength: 0 }) },
    { weight: 9, arbitrary: fc.array(slice, { minLength: 1, maxLength: 2 }) },
  ),
});

type RandomService = typeof service extends fc.Arbitrary<infer T> ? T : never;

function serviceManifests(one: RandomService, index: number): readonly object[] {
  const name = `s${index}`;
  const ports = one.protocols.map((protocol) => ({ name: protocol.toLowerCase(), protocol, port: one.port }));
  const labels = one.isOthers ? { "service.kubernetes.io/service-proxy-name": "mesh" } : {};
  const nodePort = one.nodePort === 0 ? undefined : one.nodePort + 10 * index;
  return [
    {
      apiVersion: "v1",
      kind: "Service",
      metadata: { name, labels, annotations: one.isEnforced ? ENFORCED : {} },
      spec: {
        type: one.ingress.length > 0 ? "LoadBalancer" : nodePort === undefined ? "ClusterIP" : "NodePort",
        clusterIP: one.isHeadless ? "None" : one.clusterIP,
        ports: ports.map((port) => ({ ...port, nodePort })),
        externalIPs: one.externalIPs,
        loadBalancerSourceRanges: one.ranges,
        externalTrafficPolicy: one.externalTrafficPolicy,
        internalTrafficPolicy: one.internalTrafficPolicy,
        sessionAffinity: one.hasAffinity ? "ClientIP" : "None",
      },
      status: { loadBalancer: { ingress: one.ingress.map((ip) => ({ ip, ipMode: one.ipMode })) } },
    },
    ...one.slices.map(({ port, endpoints }, number) => ({
      apiVersion: "discovery.k8s.io/v1",
      kind: "EndpointSlice",
      metadata: { name: `${name}-${number}`, labels: { "kubernetes.io/service-name": name } },
      addressType: "IPv4",
      ports: ports.map(({ name: portName, protocol }) => ({ name: portName, protocol, port })),
      endpoints,
    })),
  ];
}

const NODES = [
  { name: "n1", internal: "10.240.0.5", pods: "10.244.1.0/24", zone: "a" },
  { name: "n2", internal: "10.240.0.4", pods: "10.244.0.0/24", zone: "b" },
].map(({ name, internal, pods, zone }) => ({
  apiVersion: "v1",
  kind: "Node",
  metadata: { name, labels: { "topology.kubernetes.io/zone": zone } },
  spec: { podCIDRs: [pods] },
  status: { addresses: [{ type: "InternalIP", address: internal }] },
}));

const sender = fc.oneof(
  fc.record({ entry: fc.constant("pod" as const), source: fc.constantFrom(...LOCAL_PODS) }),
  fc.record({ entry: fc.constant("node" as const), source: fc.constant("10.240.0.5") }),
  fc.record({ entry: fc.constant("outside" as const), source: fc.constantFrom(...OUTSIDE, "10.244.0.9") }),
);

/** What a packet is sent to: mostly a Service's own address and port, or the node and a node port. */
const target = fc.oneof(
  {
    weight: 7,
    arbitrary: fc.record({
      destination: fc.constantFrom(...CLUSTER_IPS, ...EXTERNAL_IPS, ...BALANCER_IPS),
      port: fc.constantFrom(...PORTS, 81),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      destination: fc.constantFrom(...NODE_IPS, "10.240.0.4"),
      port: fc.constantFrom(...NODE_PORTS).chain((port) => fc.nat(3).map((index) => port + 10 * index)),
    }),
  },
);

/** Random clusters of one family with one to four Services, and a packet that has a fair chance to be for one of them. */
export const serviceCases: fc.Arbitrary<ServiceCase> = fc
  .record({
    services: fc.array(service, { minLength: 1, maxLength: 4 }),
    sender,
    target,
    protocol: fc.constantFrom("TCP", "TCP", "TCP", "UDP", "SCTP" as const),
    nodePortAddresses: fc.constantFrom([], [], ["primary"], ["192.0.2.0/24"]),
    refuseExternalIps: rarely,
    isIpv6: fc.boolean(),
    aim: fc.record({ isOn: often, service: fc.nat(3), frontend: fc.nat(7), protocol: fc.nat(1) }),
  })
  .map(({ services, sender: { entry, source }, target: any, protocol: anyProtocol, aim, isIpv6, ...rest }) => {
    const inFamily = <T>(value: T): T => (isIpv6 ? (ipv6Twin(value) as T) : value);
    const { destination, port, protocol = anyProtocol } = { protocol: anyProtocol, ...(aimed(services, aim) ?? any) };
    const addresses = (texts: readonly string[]): ReadonlySet<Address> =>
      new Set(inFamily(texts).map((text) => parseAddress(text)));
    const store = storeOf(inFamily([...NODES, ...services.flatMap(serviceManifests)]));
    return {
      world: {
        nodeName: "n1",
        services: [...store.services.values()],
        endpointSlices: [...store.endpointSlices.values()],
        nodes: [...store.nodes.values()],
        localPods: addresses(LOCAL_PODS),
        nodeAddresses: addresses([...NODE_IPS, "127.0.0.1"]),
        configuration: {
          nodePortAddresses: inFamily(rest.nodePortAddresses).map((text) =>
            text === "primary" ? "primary" : parseCidr(text),
          ),
          refuseExternalIps: rest.refuseExternalIps,
          tcpReset: false,
          clusterCidrs: [],
        },
      },
      packet: {
        entry,
        protocol,
        source: parseAddress(inFamily(source)),
        sourcePort: 40_000,
        destination: parseAddress(inFamily(destination)),
        destinationPort: port,
      },
    };
  });

interface Aim {
  readonly isOn: boolean;
  readonly service: number;
  readonly frontend: number;
  readonly protocol: number;
}

/** An address, port and protocol that one of the Services has, mostly. */
function aimed(
  services: readonly RandomService[],
  { isOn, service: number, frontend, protocol }: Aim,
):
  | { readonly destination: string; readonly port: number; readonly protocol: Packet["protocol"] | undefined }
  | undefined {
  const index = number % services.length;
  const one = services[index];
  if (one === undefined || !isOn) return undefined;
  const own = [one.clusterIP, ...one.externalIPs, ...one.ingress].map((destination) => ({
    destination,
    port: one.port,
  }));
  const node = one.nodePort === 0 ? [] : [{ destination: "10.240.0.5", port: one.nodePort + 10 * index }];
  const all = [...own, ...node];
  const goal = all[frontend % all.length];
  return goal && { ...goal, protocol: one.protocols[protocol % one.protocols.length] };
}

import * as fc from "fast-check";

/**
 * The addresses of a cluster of two nodes, n1 and n2, all of IPv4. There are few of each kind, so that random objects
 * often share an address, whether they should or not.
 */
export interface Places {
  readonly clusterIps: readonly string[];
  /** External IPs, one of which may be an address of n1. */
  readonly externalIps: readonly string[];
  readonly balancerIps: readonly string[];
  /** Addresses of n1, beginning with the one of its Node object. */
  readonly nodeIps: readonly [string, ...string[]];
  /** The address of n2. */
  readonly otherNode: string;
  readonly localPods: readonly string[];
  readonly remotePods: readonly string[];
  /** Endpoints that are not pods. */
  readonly others: readonly { readonly address: string; readonly nodeName: string | undefined }[];
  /** Senders outside of n1, pods of n2 among them. */
  readonly outside: readonly string[];
  /** The source ranges that a load balancer may have; each outside sender is in some and not in others. */
  readonly sourceRanges: readonly [string, string, string];
  /** The pod CIDRs of n1 and of n2. */
  readonly podCidrs: readonly [string, string];
  /** A prefix for `nodePortAddresses` that contains some of n1's addresses. */
  readonly chosenNodePorts: string;
}

export const SERVICE_PORTS = [80, 443];
const TARGET_PORTS = [8080, 9090];
/** The node ports of the first Service; those of each further one are ten higher. */
export const NODE_PORTS = [30_001, 30_002, 30_003];
const PROTOCOLS = ["TCP", "UDP", "SCTP"] as const;

const ENFORCED = { "drawbridge.dev/enforce-source-ranges": "true" };

const policy = fc.constantFrom("Cluster", "Local");
const some = (values: readonly string[]) => fc.uniqueArray(fc.constantFrom(...values), { maxLength: 2 });
const rarely = fc.integer({ min: 1, max: 12 }).map((number) => number === 7);

const conditions = fc.constantFrom(
  undefined,
  { ready: true },
  { ready: true, serving: true, terminating: false },
  { ready: true, serving: true, terminating: false },
  { ready: false, serving: true, terminating: true },
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

function endpointLists({ localPods, remotePods, others }: Places) {
  const on = (nodeName: string, addresses: readonly string[]) =>
    fc.record({ address: fc.constantFrom(...addresses), nodeName: fc.constant(nodeName) });
  const endpoint = fc
    .record({
      place: fc.oneof(
        { weight: 4, arbitrary: on("n1", localPods) },
        { weight: 4, arbitrary: on("n2", remotePods) },
        { weight: 1, arbitrary: fc.constantFrom(...others) },
      ),
      conditions,
      hints,
    })
    .map(({ place: { address, nodeName }, ...rest }) => ({ addresses: [address], nodeName, ...rest }));
  return fc.oneof(
    { weight: 6, arbitrary: fc.array(endpoint, { minLength: 1, maxLength: 4 }) },
    // Hints of one kind, as the control plane writes them: all endpoints have them or none.
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
}

function ownHint(hint: string, nodeName: string | undefined): readonly object[] {
  if (hint === "forNodes") return [{ name: nodeName ?? "n2" }];
  return [{ name: nodeName === "n1" ? "a" : "b" }];
}

function services(places: Places) {
  const { sourceRanges } = places;
  const slice = fc.record({ port: fc.constantFrom(...TARGET_PORTS), endpoints: endpointLists(places) });
  return fc.record({
    clusterIP: fc.constantFrom(...places.clusterIps),
    isHeadless: rarely,
    isOthers: rarely,
    protocols: fc.uniqueArray(fc.constantFrom(...PROTOCOLS), { minLength: 1, maxLength: 2 }),
    port: fc.constantFrom(...SERVICE_PORTS),
    nodePort: fc.constantFrom(0, ...NODE_PORTS),
    externalIPs: some(places.externalIps),
    ingress: some(places.balancerIps),
    ipMode: fc.constantFrom("VIP", "VIP", "VIP", "Proxy"),
    ranges: fc.constantFrom([], [], [], [], sourceRanges.slice(0, 2), sourceRanges.slice(0, 1), sourceRanges.slice(2)),
    externalTrafficPolicy: policy,
    internalTrafficPolicy: policy,
    isEnforced: rarely,
    hasAffinity: rarely,
    // The numbers of these timeouts in the rules do not depend on their order.
    timeoutSeconds: fc.constantFrom(125, 7200, 10_800),
    slices: fc.oneof(
      { weight: 1, arbitrary: fc.array(slice, { maxLength: 0 }) },
      { weight: 9, arbitrary: fc.array(slice, { minLength: 1, maxLength: 2 }) },
    ),
  });
}

/** The random values that make a Service. */
export type RandomService = ReturnType<typeof services> extends fc.Arbitrary<infer T> ? T : never;

/** Returns a Service and its slices as the API has them; the index determines their names and node ports. */
export function serviceManifests(one: RandomService, index: number): readonly object[] {
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
        ...(one.hasAffinity ? { sessionAffinityConfig: { clientIP: { timeoutSeconds: one.timeoutSeconds } } } : {}),
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

/** Returns both nodes as the API has them. */
export function nodeManifests({ nodeIps: [first], otherNode, podCidrs }: Places): readonly object[] {
  return [
    { name: "n1", internal: first, pods: podCidrs[0], zone: "a" },
    { name: "n2", internal: otherNode, pods: podCidrs[1], zone: "b" },
  ].map(({ name, internal, pods, zone }) => ({
    apiVersion: "v1",
    kind: "Node",
    metadata: { name, labels: { "topology.kubernetes.io/zone": zone } },
    spec: { podCIDRs: [pods] },
    status: { addresses: [{ type: "InternalIP", address: internal }] },
  }));
}

/** One to four Services, and the configuration of the node. */
export interface RandomCluster {
  readonly services: readonly RandomService[];
  readonly nodePortAddresses: readonly string[];
  readonly refuseExternalIps: boolean;
}

/** Random Services with endpoints at the given places. */
export function randomClusters(places: Places): fc.Arbitrary<RandomCluster> {
  return fc.record({
    services: fc.array(services(places), { minLength: 1, maxLength: 4 }),
    nodePortAddresses: fc.constantFrom([], [], ["primary"], [places.chosenNodePorts]),
    refuseExternalIps: rarely,
  });
}

/** Returns all objects of a cluster, in IPv4. */
export function clusterManifests(places: Places, { services: list }: RandomCluster): readonly object[] {
  return [...nodeManifests(places), ...list.flatMap(serviceManifests)];
}

import * as fc from "fast-check";
import { arbitraryClusterPolicy } from "./arbitrary_cluster_policy.ts";
import { networkPolicies } from "./arbitrary_network_policy.ts";
import { APPS, mostly, NAMES, NAMESPACES, NODES, NUMBERS, TIERS } from "./arbitrary_words.ts";
import type { RawCluster, RawContainer, RawFlow, RawLabels, RawPod } from "./raw_cluster.ts";

/** A cluster, and flows in it. */
export interface PolicyCase {
  readonly cluster: RawCluster;
  readonly flows: readonly RawFlow[];
}

const FLOWS = 8;

const labels = (values: Readonly<Record<string, readonly (string | undefined)[]>>): fc.Arbitrary<RawLabels> =>
  fc
    .record(Object.fromEntries(Object.entries(values).map(([key, words]) => [key, fc.constantFrom(...words)])))
    .map((record) =>
      Object.fromEntries(Object.entries(record).filter((entry): entry is [string, string] => entry[1] !== undefined)),
    );

const rarely = mostly(false, 9, true);

/** A named port, whose number is mostly the same, but not in all pods. */
const namedPort = fc
  .record({
    name: fc.constantFrom(...NAMES),
    containerPort: fc.constantFrom(...NUMBERS),
    isUsual: fc.constantFrom(true, true, true, false),
    protocol: fc.constantFrom(undefined, undefined, undefined, "TCP", "TCP", "UDP", "SCTP"),
  })
  .map(({ name, containerPort, isUsual, protocol }) => ({
    name,
    containerPort: isUsual ? (NUMBERS[NAMES.indexOf(name)] ?? containerPort) : containerPort,
    protocol,
  }));

const container: fc.Arbitrary<RawContainer> = fc
  .uniqueArray(namedPort, { minLength: 2, maxLength: 3, selector: ({ name }) => name })
  .map((ports) => ({
    name: "server",
    ports: ports.map(({ protocol, ...port }) => (protocol === undefined ? port : { ...port, protocol })),
  }));

const pod = fc.record({
  namespace: fc.constantFrom(...NAMESPACES, "n1", "n2"),
  labels: labels({ app: [...APPS, ...APPS, undefined], tier: [...TIERS, undefined] }),
  nodeName: fc.constantFrom(...NODES, ...NODES, undefined),
  isHostNetwork: rarely,
  containers: fc.array(container, { minLength: 1, maxLength: 1 }),
  initContainers: fc.array(fc.record({ container, restartPolicy: fc.constantFrom("Always", undefined) }), {
    maxLength: 1,
  }),
  families: mostly("46", 45, "64", "64", "64", "4", "6", ""),
  phase: fc.nat(19).map((number) => (["Succeeded", "Failed", "Pending", "Unknown"] as const)[number] ?? "Running"),
  isTerminating: rarely,
  /** The number of the pod whose addresses it has instead of its own. */
  place: mostly(undefined, 12, 0, 1, 2),
});

type RandomPod = typeof pod extends fc.Arbitrary<infer T> ? T : never;

/** Returns a pod with an address 10.244.N.5; half of these addresses lie in the prefixes that policies name. */
function rawPod(one: RandomPod, number: number): RawPod {
  const { namespace, nodeName, isHostNetwork, containers, initContainers, families, phase, isTerminating } = one;
  const name = `p${number}`;
  const deletion = isTerminating ? { deletionTimestamp: "2026-01-01T00:00:00Z" } : {};
  const init = initContainers.map(({ container: inner, restartPolicy }) => ({
    ...inner,
    name: "init",
    ...(restartPolicy === undefined ? {} : { restartPolicy }),
  }));
  const isOnNode = nodeName !== undefined;
  return {
    metadata: { name, namespace, labels: one.labels, ...deletion },
    spec: {
      ...(isOnNode ? { nodeName } : {}),
      ...(isHostNetwork && isOnNode ? { hostNetwork: true } : {}),
      containers,
      ...(init.length > 0 ? { initContainers: init } : {}),
    },
    status: {
      phase,
      podIPs:
        isHostNetwork && isOnNode
          ? []
          : families.split("").map((family) => ({ ip: podAddress(one.place ?? number, family === "6") })),
    },
  };
}

function podAddress(number: number, isIpv6: boolean): string {
  return isIpv6 ? `fd00:244:${number}::5` : `10.244.${number}.5`;
}

const nodes = fc.tuple(...NODES.map(() => labels({ zone: ["a", "b", undefined] }))).map((all) =>
  NODES.map((name, index) => ({
    metadata: { name, labels: all[index] ?? {} },
    status: {
      addresses: [
        { type: "InternalIP", address: `10.240.0.${index + 1}` },
        { type: "InternalIP", address: `fd00:240::${index + 1}` },
        { type: "ExternalIP", address: `192.0.2.${index + 1}` },
        { type: "Hostname", address: name },
      ],
    },
  })),
);

/** Namespaces, one of which is sometimes not among the objects. */
const namespaces = fc
  .tuple(
    labels({ team: ["a", "b"] }),
    labels({ team: ["a", "b", undefined], env: ["prod", undefined] }),
    labels({ env: ["prod"] }),
    fc.boolean(),
  )
  .map(([first, second, third, isKnown]) =>
    [first, second, third]
      .map((all, index) => ({ metadata: { name: NAMESPACES[index] ?? "", labels: all } }))
      .slice(0, isKnown ? 3 : 2),
  );

/** Returns a finished pod that had the address of the first. */
function finishedTwin(first: RawPod | undefined): readonly RawPod[] {
  if (first === undefined) return [];
  return [
    {
      metadata: { name: "finished", namespace: first.metadata.namespace, labels: { app: "web" } },
      spec: { nodeName: "node1", containers: [] },
      status: { phase: "Succeeded", podIPs: first.status.podIPs ?? [] },
    },
  ];
}

const OUTSIDE = [
  ["10.1.2.3", "fd00:1::5"],
  ["192.0.2.77", "fd00:2::5"],
  ["192.0.2.1", "fd00:240::1"],
] as const;

const PLACES = fc.constantFrom(0, 1, 2, 3, 4, 5);

const end = (ofNodes: number): fc.Arbitrary<RandomEnd> =>
  fc.oneof(
    { weight: 20, arbitrary: PLACES.map((number) => ({ pod: number })) },
    { weight: ofNodes, arbitrary: fc.constantFrom(...NODES).map((node) => ({ node })) },
    { weight: ofNodes, arbitrary: fc.constantFrom(...OUTSIDE).map((outside) => ({ outside })) },
    { weight: 2, arbitrary: PLACES.map((addressOf) => ({ addressOf })) },
  );

type RandomEnd =
  | { readonly pod: number }
  | { readonly node: string }
  | { readonly outside: (typeof OUTSIDE)[number] }
  | { readonly addressOf: number };

const flow = fc.record({
  source: end(1),
  destination: end(5),
  protocol: mostly<RawFlow["protocol"]>("TCP", 15, "UDP", "UDP", "UDP", "SCTP", "SCTP", "ICMP", "ICMP error"),
  port: fc.constantFrom(...NUMBERS, ...NUMBERS, ...NUMBERS, 81),
  isIpv6: mostly(false, 2, true),
  isThroughService: rarely,
});

function endText(one: RandomEnd, pods: readonly RawPod[], isIpv6: boolean): string {
  if ("node" in one) return `node ${one.node}`;
  if ("outside" in one) return one.outside[isIpv6 ? 1 : 0];
  const number = ("pod" in one ? one.pod : one.addressOf) % pods.length;
  if ("addressOf" in one) return podAddress(number, isIpv6);
  const { metadata } = pods[number] ?? pods[0] ?? { metadata: { namespace: "", name: "" } };
  return `pod ${metadata.namespace}/${metadata.name}`;
}

/** Random clusters with everything that affects verdicts of policies, and flows that are likely to be affected. */
export const policyCases: fc.Arbitrary<PolicyCase> = fc
  .record({
    namespaces,
    nodes,
    pods: fc.array(pod, { minLength: 6, maxLength: 6 }),
    hasTwin: rarely,
    networkPolicies,
    clusterNetworkPolicies: fc
      .constantFrom(0, 1, 2, 3, 4)
      .chain((length) => fc.array(arbitraryClusterPolicy, { minLength: length, maxLength: length })),
    flows: fc.array(flow, { minLength: FLOWS, maxLength: FLOWS }),
  })
  .map(({ pods: random, hasTwin, flows, clusterNetworkPolicies, ...rest }) => {
    const pods = random.map(rawPod);
    const cluster: RawCluster = {
      ...rest,
      pods: [...pods, ...(hasTwin ? finishedTwin(pods[0]) : [])],
      clusterNetworkPolicies: clusterNetworkPolicies.map((policy, index) => ({
        ...policy,
        metadata: { name: `c${index}` },
      })),
    };
    return {
      cluster,
      flows: flows.map(({ source, destination, ...traffic }) => ({
        ...traffic,
        source: endText(source, cluster.pods, traffic.isIpv6),
        destination: endText(destination, cluster.pods, traffic.isIpv6),
      })),
    };
  });

/** The cluster of network-policy-api's conformance suite: two pods for each of five namespaces, those of forbidden-forrest on the hosts' network. */
export const HOUSES = {
  gryffindor: "harry-potter",
  slytherin: "draco-malfoy",
  hufflepuff: "cedric-diggory",
  ravenclaw: "luna-lovegood",
  "forbidden-forrest": "centaur",
} as const;

export type House = keyof typeof HOUSES;
export type PodName = `${(typeof HOUSES)[House]}-${Replica}`;
type Replica = 0 | 1;

const REPLICAS: readonly Replica[] = [0, 1];
const ALL: readonly House[] = ["gryffindor", "slytherin", "hufflepuff", "ravenclaw", "forbidden-forrest"];

/** Returns the manifests of nodes, namespaces and pods. */
export function hogwarts(): readonly object[] {
  return [...REPLICAS.map(node), ...ALL.flatMap((house) => [namespace(house), ...podsOf(house)])];
}

export function namespaceOf(house: House): string {
  return `network-policy-conformance-${house}`;
}

/** Returns both pods of a house. */
export function pairOf(house: House): readonly PodName[] {
  return REPLICAS.map((replica): PodName => `${HOUSES[house]}-${replica}`);
}

/** Returns a pod's key `namespace/name`. */
export function keyOf(pod: PodName): string {
  return `${namespaceOf(houseOf(pod))}/${pod}`;
}

/** Returns a pod's address in either family; for a pod of the hosts' network its node's. */
export function addressesOf(pod: PodName): readonly [ipv4: string, ipv6: string] {
  const house = houseOf(pod);
  const replica = pod.endsWith("0") ? 0 : 1;
  if (house === "forbidden-forrest") return nodeAddresses(replica);
  const subnet = ALL.indexOf(house) + 1;
  return [`10.244.${subnet}.${replica + 1}`, `fd00:244:0:${subnet}::${replica + 1}`];
}

function houseOf(pod: PodName): House {
  const house = ALL.find((candidate) => pairOf(candidate).includes(pod));
  if (house === undefined) throw new RangeError(`no pod is named ${pod}`);
  return house;
}

function nodeAddresses(replica: Replica): readonly [string, string] {
  return [`10.240.0.${replica + 1}`, `fd00:240::${replica + 1}`];
}

function node(replica: Replica): object {
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: `node-${replica}`, labels: { "kubernetes.io/os": "linux" } },
    status: { addresses: nodeAddresses(replica).map((address) => ({ type: "InternalIP", address })) },
  };
}

function namespace(house: House): object {
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: namespaceOf(house), labels: { "conformance-house": house } },
  };
}

function podsOf(house: House): readonly object[] {
  const hostNetwork = house === "forbidden-forrest";
  return REPLICAS.map((replica) => {
    const name: PodName = `${HOUSES[house]}-${replica}`;
    return {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name,
        namespace: namespaceOf(house),
        labels: { "conformance-house": house, "statefulset.kubernetes.io/pod-name": name },
      },
      spec: { nodeName: `node-${replica}`, hostNetwork, containers: servers() },
      status: { phase: "Running", podIPs: addressesOf(name).map((ip) => ({ ip })) },
    };
  });
}

/** Returns the containers of a pod. Only two of the served ports have names, each in a container of its own. */
function servers(): readonly object[] {
  return [
    { name: "client" },
    { name: "server-80", ports: [{ name: "web", containerPort: 80, protocol: "TCP" }] },
    { name: "server-53", ports: [{ name: "dns", containerPort: 53, protocol: "UDP" }] },
  ];
}

import { formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr, hostCidr } from "../../../kernel/ip/cidr.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import type { World } from "../world.ts";

/** A NetworkPolicy, and a text of what it shows. */
export interface ShownPolicy {
  /** The pod that it isolates, and its namespace. */
  readonly pod: string;
  readonly words: string;
  readonly manifest: RawObject;
}

/**
 * Returns one policy for each pod: default deny, two selectors in one entry and in two, a port's name, except, and
 * egress.
 */
export function policyShow(world: World): readonly ShownPolicy[] {
  const inMonitoring = { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "monitoring" } } };
  const isFrontend = { podSelector: { matchLabels: { role: "frontend" } } };
  const { podCidrs } = world.cluster.node("node1");
  const podC = podOf(world, "pod-c");
  const node1WithoutC = podCidrs.map((cidr, index) => {
    const address = podC.addresses[index === 0 ? 4 : 6];
    return { ipBlock: { cidr, except: [formatCidr(hostCidr(address))] } };
  });
  const show = (pod: string, words: string, spec: object): ShownPolicy => {
    const { podNamespace: namespace } = podOf(world, pod);
    const metadata = { name: `of-${pod}`, namespace };
    const podSelector = { matchLabels: { app: pod } };
    const manifest = {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata,
      spec: { podSelector, ...spec },
    };
    return { pod, words, manifest };
  };
  return [
    show("pod-a", "may send to pods of any namespace, by UDP to port 8080", {
      policyTypes: ["Egress"],
      egress: [{ to: [{ namespaceSelector: {} }], ports: [{ protocol: "UDP", port: 8080 }] }],
    }),
    show("pod-b", "default deny", { policyTypes: ["Ingress"] }),
    show("pod-c", "from role=frontend in namespace monitoring: one entry, AND", {
      ingress: [{ from: [{ ...isFrontend, ...inMonitoring }] }],
    }),
    show("pod-d", 'to the port it calls "web", 8080/TCP, from anyone', { ingress: [{ ports: [{ port: "web" }] }] }),
    show("pod-e", "from role=frontend of its namespace, and from namespace monitoring: two entries, OR", {
      ingress: [{ from: [isFrontend, inMonitoring] }],
    }),
    show("pod-f", `from node1's pods except ${formatAddress(podC.addresses[4])} and its IPv6 address (pod-c)`, {
      ingress: [{ from: node1WithoutC }],
    }),
  ];
}

function podOf(world: World, name: string): World["pods"][number] {
  const pod = world.pods.find((one) => one.name === name);
  if (pod === undefined) throw new Error(`the demo has no ${name}`);
  return pod;
}

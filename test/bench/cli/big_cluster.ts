import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { rowLine } from "../../../policyd/flows/journal.ts";
import type { RowEnd } from "../../../policyd/flows/row.ts";

const NAMESPACES = 50;
const WORKLOADS = 500;
const PODS_EACH = 20;
const POLICIES = 1000;
const NODES = 100;

/** The size of the cluster with which the command line is measured. */
export const BIG = {
  pods: WORKLOADS * PODS_EACH,
  workloads: WORKLOADS,
  policies: POLICIES,
  connections: 50_000,
  flows: 50_000,
};

/** Returns connections between the cluster's pods as `conntrack -L` prints them, each of another pair. */
export function bigConnections(): string {
  const lines = Array.from({ length: BIG.connections }, (_, number) => {
    const [from, to] = [addressOf(number % BIG.pods), addressOf((number * 7919 + 1) % BIG.pods)];
    const ports = { client: 32_768 + (number % 28_000), server: 8080 + (number % 3) };
    const original = `src=${from} dst=${to} sport=${ports.client} dport=${ports.server}`;
    const reply = `src=${to} dst=${from} sport=${ports.server} dport=${ports.client}`;
    return `tcp      6 431999 ESTABLISHED ${original} ${reply} [ASSURED] mark=0 use=1\n`;
  });
  return lines.join("");
}

/**
 * Returns flows between the cluster's workloads, and with addresses outside, as `flows -o jsonl` prints them, each of
 * another pair or port.
 */
export function bigLedger(): string {
  const nameOf = (number: number): RowEnd => ({
    type: "workload",
    name: `n${number % NAMESPACES}/deployment/w${number}`,
  });
  const lines = Array.from({ length: BIG.flows }, (_, number) => {
    const pair = Math.floor(number / 3);
    const address = `203.0.${pair % 250}.${1 + (pair % 200)}`;
    return rowLine({
      from: pair % 10 === 0 ? { type: "outside", range: parseCidr(`${address}/32`) } : nameOf(pair % WORKLOADS),
      to: nameOf(Math.floor(pair / WORKLOADS + pair * 7) % WORKLOADS),
      protocol: "TCP",
      port: 8080 + (number % 3),
      verdict: "allowed",
      observedAt: "to",
      firstSeen: Date.UTC(2026, 0, 1),
      lastSeen: Date.UTC(2026, 0, 8),
      count: 1 + (number % 100),
      open: 0,
      bytes: 1000 * number,
      reason: undefined,
    });
  });
  return lines.join("");
}

/** Returns the cluster's namespaces and pods, as `kubectl get -o json` prints them: some 10 KB for each pod. */
export function bigPods(): readonly object[] {
  const namespaces = Array.from({ length: NAMESPACES }, (_, n) => ({
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: `n${n}`, labels: { "kubernetes.io/metadata.name": `n${n}`, team: `t${n % 7}` } },
  }));
  return [...namespaces, ...Array.from({ length: BIG.pods }, (_, number) => podAt(number))];
}

function addressOf(number: number): string {
  return `10.${number >> 14}.${(number >> 7) & 127}.${number & 127}`;
}

function podAt(number: number): object {
  const workload = Math.floor(number / PODS_EACH);
  const name = `w${workload}-7d9c5b8f46-${number}`;
  const podIP = addressOf(number);
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace: `n${workload % NAMESPACES}`,
      uid: `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`,
      resourceVersion: String(1_000_000 + number),
      creationTimestamp: "2026-01-01T00:00:00Z",
      labels: { app: `w${workload}`, tier: `x${workload % 5}`, "pod-template-hash": "7d9c5b8f46" },
      ownerReferences: [
        {
          apiVersion: "apps/v1",
          kind: "ReplicaSet",
          name: `w${workload}-7d9c5b8f46`,
          uid: name,
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
      managedFields: managedFields(),
    },
    spec: {
      nodeName: `node${number % NODES}`,
      containers: [
        {
          name: "server",
          image: "registry.example/server:1.0",
          ports: [{ name: "http", containerPort: 8080 + (workload % 3), protocol: "TCP" }],
          env: Array.from({ length: 7 }, (_, i) => ({ name: `SETTING_${i}`, value: `value ${i} of ${name}` })),
          resources: { requests: { cpu: "100m", memory: "128Mi" }, limits: { memory: "256Mi" } },
        },
      ],
    },
    status: {
      phase: "Running",
      podIP,
      podIPs: [{ ip: podIP }],
      conditions: ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map((type) => ({
        type,
        status: "True",
        lastProbeTime: null,
        lastTransitionTime: "2026-01-01T00:00:00Z",
      })),
    },
  };
}

/** Returns the fields that make up most of a pod's JSON: which client set which field. */
function managedFields(): readonly object[] {
  const fields = Object.fromEntries(
    Array.from({ length: 6 }, (_, i) => [`f:field${i}`, { ".": {}, "f:name": {}, "f:value": {} }]),
  );
  return ["kube-controller-manager", "kubelet"].map((manager) => ({
    manager,
    operation: "Update",
    apiVersion: "v1",
    time: "2026-01-01T00:00:00Z",
    fieldsType: "FieldsV1",
    fieldsV1: { "f:metadata": { "f:labels": fields }, "f:spec": fields },
  }));
}

/**
 * Returns the cluster's policies: default deny in each namespace, rules with two selectors, prefixes, names and ranges
 * of ports in the others.
 */
export function bigPolicies(): readonly object[] {
  return Array.from({ length: POLICIES }, (_, number) => ({
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: { name: `p${number}`, namespace: `n${number % NAMESPACES}` },
    spec: number < NAMESPACES ? { podSelector: {}, policyTypes: ["Ingress"] } : specAt(number),
  }));
}

function specAt(number: number): object {
  const egress = [
    {
      to: [{ namespaceSelector: {} }],
      ports: [
        { port: 53, protocol: "UDP" },
        { port: 8080, endPort: 8100 },
      ],
    },
  ];
  const hasEgress = number % 3 === 0;
  return {
    podSelector: { matchLabels: { app: `w${number % WORKLOADS}` } },
    policyTypes: hasEgress ? ["Ingress", "Egress"] : ["Ingress"],
    ingress: [
      {
        from: [
          {
            podSelector: { matchLabels: { tier: `x${number % 5}` } },
            namespaceSelector: { matchLabels: { team: `t${number % 7}` } },
          },
          { ipBlock: { cidr: `10.0.${number % 100}.0/24` } },
        ],
        ports: [{ port: "http" }, { port: 9000 + (number % 20) }],
      },
    ],
    ...(hasEgress ? { egress } : {}),
  };
}

import { drawbridge, kubectl, type Materials } from "../cluster.ts";
import { ProgramError } from "../run.ts";
import { INTERNET_ADDRESSES, withoutLength } from "../settings.ts";
import type { RunningCluster } from "../state.ts";
import { installPolicyDefinition } from "./conformance.ts";
import type { TestResult } from "./result.ts";

const NAMESPACE = "domain-names";
const IMAGE = "registry.k8s.io/e2e-test-images/agnhost:2.43";
/** The name that the cluster's DNS forwards to the server that stands for the Internet (parts/upstream_dns.ts). */
const NAME = "google.com";
const [IPV4, IPV6] = [withoutLength(INTERNET_ADDRESSES[4]), withoutLength(INTERNET_ADDRESSES[6])];

type Label = "cluster-policy" | "policy";

function pod(name: string, label: Label): object {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: NAMESPACE, labels: { under: label } },
    spec: {
      terminationGracePeriodSeconds: 1,
      containers: [{ name: "pause", image: IMAGE, imagePullPolicy: "Never" }],
    },
  };
}

const ports = ["udp", "tcp"].map((protocol) => ({ [protocol]: { destinationPort: { number: 53 } } }));

const OBJECTS: readonly object[] = [
  { apiVersion: "v1", kind: "Namespace", metadata: { name: NAMESPACE } },
  pod("asks", "cluster-policy"),
  pod("asks-nothing", "cluster-policy"),
  pod("asks-too", "policy"),
  {
    apiVersion: "policy.networking.k8s.io/v1alpha2",
    kind: "ClusterNetworkPolicy",
    metadata: { name: NAMESPACE },
    spec: {
      tier: "Admin",
      priority: 900,
      subject: {
        pods: {
          namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": NAMESPACE } },
          podSelector: { matchLabels: { under: "cluster-policy" } },
        },
      },
      egress: [
        { action: "Accept", to: [{ namespaces: {} }], protocols: ports },
        {
          action: "Accept",
          to: [{ domainNames: [NAME] }],
          protocols: [{ tcp: { destinationPort: { number: 80 } } }],
        },
        { action: "Deny", to: [{ networks: ["0.0.0.0/0", "::/0"] }] },
      ],
    },
  },
  {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: {
      name: "names",
      namespace: NAMESPACE,
      annotations: { "drawbridge.dev/egress-domain-names": `${NAME}:80` },
    },
    spec: {
      podSelector: { matchLabels: { under: "policy" } },
      policyTypes: ["Egress"],
      egress: [{ to: [{ namespaceSelector: {} }], ports: ["UDP", "TCP"].map((protocol) => ({ protocol, port: 53 })) }],
    },
  },
];

/**
 * Runs pods under policies with a domain name, one of ClusterNetworkPolicy and one in the annotation of a
 * NetworkPolicy, against the cluster's DNS and the server that stands for the Internet.
 */
export async function runDomainNames(
  cluster: RunningCluster,
  materials: Materials,
  say: (line: string) => void,
): Promise<readonly TestResult[]> {
  await installPolicyDefinition(materials, say);
  kubectl(materials, ["apply", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items: OBJECTS }));
  kubectl(materials, ["-n", NAMESPACE, "wait", "pod", "--all", "--for=condition=Ready", "--timeout=120s"]);
  const status = ["policy", "status", "--wait", "--timeout=60s"];
  drawbridge(cluster, materials, status);

  const inPod = (name: string, command: readonly string[]): string =>
    kubectl(materials, ["-n", NAMESPACE, "exec", name, "--", ...command]);
  const ask = (name: string, type: string): string => inPod(name, ["dig", "+short", NAME, type]).trim();
  const reaches = (name: string, address: string): boolean => {
    try {
      inPod(name, ["/agnhost", "connect", address, "--timeout=5s"]);
      return true;
    } catch (error) {
      if (error instanceof ProgramError) return false;
      throw error;
    }
  };
  const targets = [`${IPV4}:80`, `[${IPV6}]:80`];
  const results: TestResult[] = [];
  const test = (title: string, run: () => unknown, expected: unknown): void => {
    const begun = performance.now();
    const [actual, wanted] = [run(), expected].map((value) => JSON.stringify(value));
    const message = actual === wanted ? "" : `${actual} instead of ${wanted}`;
    const duration = (performance.now() - begun) / 1000;
    results.push({ title, state: message === "" ? "passed" : "failed", message, duration });
  };

  for (const name of ["asks", "asks-too"]) {
    const both = (): readonly boolean[] => targets.map((target) => reaches(name, target));
    const answers = (): readonly string[] => [ask(name, "A"), ask(name, "AAAA")];
    test(`${name}: no address of a name is reached before the pod has asked for it`, both, [false, false]);
    test(`${name}: the cluster's DNS gives the name's addresses`, answers, [IPV4, IPV6]);
    test(`${name}: both addresses are reached afterwards`, both, [true, true]);
    test(`${name}: another port of an address is not reached`, () => reaches(name, `${IPV4}:53`), false);
  }
  test("another pod under the policy reaches no address", () => reaches("asks-nothing", `${IPV4}:80`), false);
  test(
    "policy status lists the name with its addresses",
    () => {
      const text = drawbridge(cluster, materials, status);
      return [NAME, IPV4, IPV6].filter((part) => !text.includes(part));
    },
    [],
  );
  ask("asks", "A");
  kubectl(materials, ["-n", "kube-system", "delete", "pods", "--selector=app.kubernetes.io/name=drawbridge"]);
  kubectl(materials, ["-n", "kube-system", "rollout", "status", "daemonset/drawbridge", "--timeout=60s"]);
  test("an address stays reached over a restart of the daemon", () => reaches("asks", `${IPV4}:80`), true);

  kubectl(materials, ["delete", "-f", "-"], JSON.stringify({ apiVersion: "v1", kind: "List", items: OBJECTS }));
  return results;
}

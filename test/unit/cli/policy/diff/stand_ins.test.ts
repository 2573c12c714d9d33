import assert from "node:assert/strict";
import * as fc from "fast-check";
import { storeOf as storeOfObjects } from "../../../../../cli/cluster/policy_objects.ts";
import { diffPolicies, type GroupChange } from "../../../../../cli/policy/diff/diff.ts";
import {
  type ConnectionSet,
  connectionText,
  difference,
  isEmpty,
  NOTHING,
  union,
} from "../../../../../cli/policy/connections/connection_set.ts";
import { PolicyChange } from "../../../../../cli/policy/policy_change.ts";
import { standInsFor } from "../../../../../cli/policy/stand_ins.ts";
import { addressPlus } from "../../../../../kernel/ip/address.ts";
import type { ClusterObject, Pod } from "../../../../../objects/model.ts";
import { buildPolicyIndex } from "../../../../../objects/semantics/policies/policy_index.ts";
import { memoryFiles, runCli } from "../../../../support/cli/cli.ts";
import { clusterPolicy, manifest, named, node, pod, workload } from "../../../../support/cli/objects.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { hasLongForm } from "../../../../support/long_form.ts";
import { policyCases } from "../../../../support/policy/arbitrary_cluster.ts";
import { manifestsOf, type RawCluster } from "../../../../support/policy/raw_cluster.ts";

const PAIRS = hasLongForm("1,000 random changes in place of 10") ? 1000 : 10;

const policy = (spec: string): string => manifest("NetworkPolicy", named("shop/p"), `spec: ${spec}`);
const DB = workload("Deployment", "shop/db");
const ingress = (peer: string, ports = "[{ port: 5432 }]"): string =>
  policy(`{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [${peer}], ports: ${ports} }] }`);
const egress = (peer: string): string =>
  policy(`{ podSelector: { matchLabels: { app: db } }, policyTypes: [Egress], egress: [{ to: [${peer}] }] }`);
const inNamespace = (name: string): string =>
  `{ namespaceSelector: { matchLabels: { kubernetes.io/metadata.name: ${name} } } }`;

const running = (...names: readonly string[]): string =>
  names
    .map((name, i) =>
      pod(`shop/${name}`, `10.244.1.${i + 5}`, {
        app: name.replace(/-.*/, ""),
        ports: "{ name: sql, containerPort: 5432 }",
      }),
    )
    .join("");
const block = (cidr: string, except: readonly string[] = []): string =>
  `{ ipBlock: { cidr: ${cidr}, except: ${JSON.stringify(except)} } }`;

/** Returns the exit code and the first words of each change. */
async function diff(old: string, young: string): Promise<readonly (string | number)[]> {
  const files = memoryFiles({ "a.yaml": old, "b.yaml": young });
  const { code, out } = await runCli(["policy", "diff", "a.yaml", "b.yaml"], files);
  const dryRun = await runCli(["policy", "dry-run", "-f", "b.yaml", "--against", "a.yaml"], files);
  assert.equal(dryRun.code, code, dryRun.out);
  assert.doesNotMatch(out, /drawbridge_new-/, "no name of a stand-in is shown");
  return [code, ...out.split("\n").filter((line) => /^(opens|closes|no )/.test(line))];
}

describe("cli/policy/diff: what is in no file", () => {
  const own = ingress("{ podSelector: {} }");
  const dns = "{ podSelector: { matchLabels: { k8s-app: kube-dns } }, namespaceSelector: {} }";
  const nobody = ingress("{ podSelector: { matchLabels: { role: none } } }");
  const RUNNING = running("web-1", "web-2", "db-1", "db-2");
  const web = "{ podSelector: { matchLabels: { app: web } } }";
  const silent =
    pod("other/a", "10.244.1.5") +
    pod("other/b", "10.244.1.6") +
    manifest("NetworkPolicy", named("other/p"), "spec: { podSelector: {}, policyTypes: [Egress] }");
  const SHARING = running("db-1") + pod("other/heir", "10.244.1.5");
  const ofHeir = (rule: string): string =>
    manifest("NetworkPolicy", named("other/p"), `spec: { podSelector: {}, ingress: [${rule}] }`);
  const denied = (networks: string): string =>
    clusterPolicy("c", `egress: [{ action: Deny, to: [{ networks: [${networks}] }] }]`);
  const toDb = "{ podSelector: { matchLabels: { app: db } } }";
  const fromWeb = ingress(web, "[]").replace("ports: []", "");
  const closed = "{ podSelector: {}, policyTypes: [Ingress, Egress] }";
  const egressOfWeb = `spec: { podSelector: { matchLabels: { app: web } }, policyTypes: [Egress], egress: [{ to: [${toDb}] }] }`;
  const isolated =
    manifest("NetworkPolicy", named("shop/closed"), `spec: ${closed}`) +
    manifest("NetworkPolicy", named("shop/web"), egressOfWeb) +
    fromWeb;
  const WEB = workload("Deployment", "shop/web");
  const listening = (port: number): string =>
    WEB.replace("image: i", `image: i, ports: [{ name: sql, containerPort: ${port} }]`);
  const client = `{ podSelector: { matchLabels: { app: client } }, policyTypes: [Egress], egress: [{ to: [${web}], ports: [{ port: sql }] }] }`;
  const noPool = `{ tier: Admin, priority: 1, subject: { pods: { podSelector: { matchLabels: { app: db } } } }, egress: [{ action: Deny, to: [{ nodes: { matchLabels: { pool: a } } }] }] }`;
  const pooled = (pool: string): string =>
    node("n1", "192.168.0.1").replace("name: n1", `name: n1, labels: { pool: ${pool} }`) +
    manifest("ClusterNetworkPolicy", "name: c", `spec: ${noPool}`);
  const onNode = (name: string, more = ""): string =>
    pod(`shop/${name}`, "10.244.1.5", { spec: `nodeName: n1${more}` });
  const BESIDE_HOST =
    node("n1", "192.168.0.1") +
    pod("shop/agent", "192.168.0.1", { spec: "nodeName: n1, hostNetwork: true" }) +
    onNode("db-1").replace("app: db-1", "app: db") +
    onNode("db-2").replace("app: db-2", "app: db").replace("10.244.1.5", "10.244.1.6");
  for (const [what, old, young, ...expected] of [
    [
      "a pod in its node's network is cut off from pods that are all on that node, where it always reaches them",
      BESIDE_HOST + ingress(block("192.168.0.1/32")),
      BESIDE_HOST + policy("{ podSelector: { matchLabels: { app: db } }, policyTypes: [Ingress] }"),
      "closes node/n1, shop/agent -> new pod in shop with app=db: 5432/TCP",
    ],
    [
      "a workload loses the label by which a policy of pods in no file admits it",
      WEB + fromWeb,
      workload("Deployment", "shop/web", "wep") + fromWeb,
      "closes shop/deployment/web -> new pod in shop with app=db: all",
    ],
    [
      "a workload's named port gets another number, and the clients are in no file",
      listening(8080) + policy(client),
      listening(9090) + policy(client),
      "opens new pod in shop with app=client -> shop/deployment/web: 9090/TCP",
      "closes new pod in shop with app=client -> shop/deployment/web: 8080/TCP",
    ],
    [
      "the number that the pods of today have takes the place of a port's name",
      RUNNING + ingress(web, "[{ port: sql }]"),
      RUNNING + ingress(web, "[{ port: 5432 }]"),
      "opens shop/web-1, shop/web-2 -> new pod in shop with app=db and another number of port sql, new pod in shop with app=db and no port sql: 5432/TCP",
      "closes shop/web-1, shop/web-2 -> new pod in shop with app=db and another number of port sql: 61001/TCP",
    ],
    [
      "a node gets another label, and the pods to which a policy denies its old one are in no file",
      pooled("a"),
      pooled("b"),
      "opens new pod in any other namespace with app=db -> node/n1: all",
    ],
    [
      "a new workload may only reach pods that are in no file",
      isolated,
      WEB + isolated,
      "opens (new workload) shop/deployment/web -> new pod in shop with app=db: all",
    ],
    [
      "the addresses of the pods of today are admitted in place of their labels",
      RUNNING + ingress(web),
      RUNNING + ingress(`${block("10.244.1.5/32")}, ${block("10.244.1.6/32")}`),
      "closes new pod in shop with app=web -> shop/db-1, shop/db-2: 5432/TCP",
    ],
    [
      "everyone but the pods of today is admitted",
      RUNNING + ingress("{ podSelector: { matchLabels: { app: none } } }"),
      RUNNING + ingress(block("10.244.0.0/16", ["10.244.1.4/30", "10.244.1.8/32"])),
      "opens new pod in any other namespace, outside 10.244.0.0/16 except 10.244.1.4/30, 10.244.1.8/32 -> shop/db-1, shop/db-2: 5432/TCP",
    ],
    [
      "the addresses of the pods of today are denied in place of their network",
      RUNNING + denied("10.244.0.0/16"),
      RUNNING + denied("10.244.1.4/30, 10.244.1.8/32"),
      "opens all pods -> new pod in any other namespace, outside 10.244.0.0/16 except 10.244.1.4/30, 10.244.1.8/32: all",
    ],
    [
      "pods are admitted of which all in the files share their addresses with pods that send nothing",
      RUNNING + silent + policy("{ podSelector: { matchLabels: { app: db } }, policyTypes: [Ingress] }"),
      RUNNING + silent + ingress(web),
      "opens new pod in shop with app=web -> shop/db-1, shop/db-2: 5432/TCP",
    ],
    [
      "nobody is admitted any more to a pod that shares its address with one of another namespace",
      SHARING + ingress(web) + ofHeir("{ from: [{ namespaceSelector: {} }] }"),
      SHARING + ingress(web) + ofHeir(""),
      "closes new pod in shop with app=web -> all pods: 5432/TCP",
      "closes shop/db-1 -> other/heir: all",
    ],
    [
      "all namespaces are admitted",
      DB + own,
      DB + ingress("{ namespaceSelector: {} }"),
      "opens new pod in any other namespace -> shop/deployment/db: 5432/TCP",
    ],
    [
      "a namespace in no file is cut",
      DB + ingress(`{ podSelector: {} }, ${inNamespace("monitoring")}`),
      DB + own,
      "closes new pod in a namespace with kubernetes.io/metadata.name=monitoring -> shop/deployment/db: 5432/TCP",
    ],
    [
      "DNS in no file is cut",
      DB + egress(`{ podSelector: {} }, ${dns}`),
      DB + egress("{ podSelector: {} }"),
      "closes shop/deployment/db -> new pod in any other namespace with k8s-app=kube-dns: all",
    ],
    [
      "pods of the namespace with a label are admitted",
      DB + nobody,
      DB + ingress("{ podSelector: { matchLabels: { role: client } } }"),
      "opens new pod in shop with role=client -> shop/deployment/db: 5432/TCP",
      "closes new pod in shop with role=none -> shop/deployment/db: 5432/TCP",
    ],
    [
      "a port's name is admitted that no pod has",
      DB + own,
      DB + ingress("{ podSelector: {} }", "[{ port: 5432 }, { port: sql }]"),
      "opens new pod in shop, shop/deployment/db -> new pod in shop with app=db: 60001/TCP",
    ],
    [
      "there are policies and no workloads",
      own,
      nobody,
      "closes new pod in shop -> new pod in shop with app=db: 5432/TCP",
    ],
    [
      "nodes in no file are denied",
      DB + clusterPolicy("c", "egress: []"),
      DB + clusterPolicy("c", "egress: [{ action: Deny, to: [{ nodes: { matchLabels: { a: b } } }] }]"),
      "closes new pod in any other namespace, shop/deployment/db -> new node with a=b, outside 224.0.0.0/4, outside 255.255.255.255/32, outside fe80::/10, outside ff00::/8: all",
    ],
    [
      "pods of a labelled namespace are admitted before a second policy",
      DB + own + clusterPolicy("c", "ingress: []"),
      DB +
        own +
        clusterPolicy("c", `ingress: [{ action: Accept, from: [{ namespaces: { matchLabels: { team: x } } }] }]`),
      "opens new pod in a namespace with team=x -> shop/deployment/db: all",
    ],
  ] as const) {
    it(`DIFF-11: ${what}: diff and dry-run name the change of new pods, with exit code 1`, async () => {
      const [code, ...lines] = await diff(old, young);
      assert.equal(code, 1);
      assert.deepEqual(new Set(lines), new Set(expected));
    });
  }

  it("DIFF-11: a label that no policy asks for, and a workload that no policy selects, make no difference for pods in no file", async () => {
    const other = WEB.replace("app: web", "app: web, version: v2");
    assert.deepEqual(await diff(WEB + fromWeb, other + fromWeb), [0, "no difference in what may be sent"]);
    const [code, ...lines] = await diff(WEB + fromWeb, WEB + workload("Job", "shop/job") + fromWeb);
    assert.equal(code, 1);
    assert.ok(lines.length > 0 && !lines.join().includes("new pod"), lines.join("\n"));
  });

  it("DIFF-11: pods and namespaces of a file are compared as any others, even if only one character tells their names from those of stand-ins", async () => {
    const linesOf = async (prefix: string): Promise<readonly (string | number)[]> => {
      const all = Array.from({ length: 9 }, (_, i) => [`shop/${prefix}-pod-${i}`, `${prefix}-namespace-${i}/x`]).flat();
      const young = all.map((name) => pod(name, "", { app: "web" })).join("");
      const lines = await diff(DB + nobody, DB + ingress(web) + young);
      return lines.map((line) => String(line).replaceAll(prefix, "some")).sort();
    };
    assert.deepEqual(await linesOf("drawbridge-new"), await linesOf("drawbridge-old"));
  });

  it("DIFF-11: equal policies in another order or under other names of files have no difference, and exit code 0", async () => {
    const two = own + egress(dns).replace("name: p", "name: q");
    assert.deepEqual(await diff(DB + two, egress(dns).replace("name: p", "name: q") + own + DB), [
      0,
      "no difference in what may be sent",
    ]);
  });

  it("DIFF-11: whatever a change opens or closes for a pod with any labels in any namespace, it does for a stand-in or a pod in files, too", function () {
    this.timeout(3_600_000);
    let changed = 0;
    fc.assert(
      fc.property(policyCases, policyCases, fc.nat(), ({ cluster: first }, { cluster: second }, seed) => {
        const young: RawCluster = {
          ...first,
          ...(seed % 4 === 3
            ? { pods: first.pods.map((one, i) => relabelled(one, second.pods[i])) }
            : {
                networkPolicies: second.networkPolicies.slice(0, 1 + (seed % 3)).concat(first.networkPolicies.slice(1)),
              }),
        };
        const [before, after] = [first, young].map(objectsOf);
        assert.ok(before !== undefined && after !== undefined);
        const standIns = standInsFor(before, after);
        const newPods = standIns.objects.filter((one) => one.kind === "Pod");
        const model = newPods.at(-1);
        if (!standIns.isComplete || model === undefined) return;
        const strangers = objectsOf(second)
          .filter((one): one is Pod => one.kind === "Pod" && !one.hostNetwork)
          .map((stranger, i): Pod => {
            const addresses = model.addresses.map((address) => addressPlus(address, 1n + BigInt(i)) ?? address);
            return {
              ...model,
              namespace: stranger.namespace,
              name: `stranger-${i}`,
              key: `${stranger.namespace}/stranger-${i}`,
              labels: stranger.labels,
              addresses,
            };
          });
        // The stand-ins do not stand for new pods with addresses in other blocks (docs/limits.md).
        const { addresses } = new PolicyChange(before, after);
        if (![...newPods, ...strangers].every((one) => addresses.isAsNew(one))) return;
        const sides = [before, after].map((objects) =>
          buildPolicyIndex(storeOfObjects([...objects, ...standIns.objects, ...strangers])),
        );
        const [was, is] = sides;
        assert.ok(was !== undefined && is !== undefined);
        const { changes } = diffPolicies({ before: was, after: is }, "pod");
        const effects = changes.flatMap(effectsOf);
        const known = new Map<string, ConnectionSet>();
        for (const { effect, connections } of effects.filter((one) => !isStranger(one.end))) {
          known.set(effect, union(known.get(effect) ?? NOTHING, connections));
        }
        for (const { end, effect, connections } of effects.filter((one) => isStranger(one.end))) {
          changed++;
          const unknown = difference(connections, known.get(effect) ?? NOTHING);
          assert.ok(isEmpty(unknown), `${end} ${effect}: ${connectionText(unknown)}`);
        }
      }),
      { numRuns: PAIRS },
    );
    assert.ok(changed > PAIRS, `${changed} changes`);
  });
});

/** The connections that a change opens or closes for one of its ends. */
interface Effect {
  readonly end: string;
  readonly effect: string;
  readonly connections: ConnectionSet;
}

/** Returns the effects of a change on pods with other pods than strangers, in each family. */
function effectsOf({ from, to, change }: GroupChange): readonly Effect[] {
  const families = change.family === undefined ? [4, 6] : [change.family];
  const ends = [
    { end: from, other: to, way: "to" },
    { end: to, other: from, way: "from" },
  ].filter(({ end, other }) => end.kind === "pods" && other.kind === "pods" && !isStranger(other.name));
  return ends.flatMap(({ end, other, way }) =>
    families.map((family) => ({
      end: end.name,
      effect: `${way} ${other.name} ${change.type} IPv${family}`,
      connections: change.connections,
    })),
  );
}

/** Returns a pod with the labels of another one. */
function relabelled(one: RawCluster["pods"][number], other = one): RawCluster["pods"][number] {
  return { ...one, metadata: { ...one.metadata, labels: other.metadata.labels ?? {} } };
}

function isStranger(name: string): boolean {
  return name.includes("/stranger-");
}

function objectsOf(cluster: RawCluster): readonly ClusterObject[] {
  const { namespaces, nodes, pods, networkPolicies, clusterNetworkPolicies } = storeOf(manifestsOf(cluster));
  return [namespaces, nodes, pods, networkPolicies, clusterNetworkPolicies].flatMap((all): readonly ClusterObject[] => [
    ...all.values(),
  ]);
}

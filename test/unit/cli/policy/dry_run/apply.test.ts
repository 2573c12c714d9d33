import assert from "node:assert/strict";
import { object, pod, policy, tryOut } from "../../../../support/cli/dry_run.ts";

describe("cli/policy/dry_run: merged objects", () => {
  const live = (kind: string, more: string, spec: string, applied = "", version?: string): string =>
    object(
      kind,
      "a",
      `, uid: u, generation: 3, creationTimestamp: "2026-01-01T00:00:00Z"${more}, annotations: { drawbridge.dev/shadow: "false"${applied} } }\nspec: ${spec}`,
      version,
    );
  const applied = (kind: string, labels: string, spec: string): string =>
    `, kubectl.kubernetes.io/last-applied-configuration: '{"kind":"${kind}","metadata":{"name":"a"${labels}},"spec":${spec}}'`;
  const POLICY = "networking.k8s.io/v1";
  const given = (spec: string): string => policy("a", spec);
  const namespace = (metadata: string): string =>
    `---\napiVersion: v1\nkind: Namespace\nmetadata: { name: shop${metadata} }\n`;
  const team = namespace(", uid: u, labels: { team: a }");
  const byApply = team.replace(
    "}",
    `}, annotations: { kubectl.kubernetes.io/last-applied-configuration: '{"metadata":{"labels":{"team":"a"}}}' }`,
  );
  const [ingress, egress] = [
    "podSelector: {}, ingress: [{}]",
    "podSelector: {}, ingress: [{}], egress: [{ ports: [{ port: 53 }] }]",
  ];
  const serve = "selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }]";
  const [clusterIp, nodePort] = ["clusterIP: 10.96.0.9, clusterIPs: [10.96.0.9]", "type: NodePort, "];
  const balanced = "type: LoadBalancer, externalTrafficPolicy: Local, ";
  const served = serve.replace("8080", "8080, protocol: TCP, nodePort: 30080");
  for (const [what, there, change, expected] of [
    [
      "an equal policy of a cluster is unchanged",
      live("NetworkPolicy", "", `{ ${ingress}, policyTypes: [Ingress] }`, "", POLICY),
      given(`{ ${ingress} }`),
      "unchanged",
    ],
    [
      "a policy retains directions that only the server has set",
      live("NetworkPolicy", "", `{ ${ingress}, policyTypes: [Ingress] }`, applied("NetworkPolicy", "", "{}"), POLICY),
      given(`{ ${egress} }`),
      "changed rules-ignored",
    ],
    [
      "a policy of a file retains directions that the server would have set",
      given(`{ ${ingress} }`),
      given(`{ ${egress} }`),
      "changed rules-ignored",
    ],
    [
      "a policy loses directions that were applied and that the change omits",
      live(
        "NetworkPolicy",
        "",
        `{ ${ingress}, policyTypes: [Ingress] }`,
        applied("NetworkPolicy", "", '{"policyTypes":["Ingress"]}'),
        POLICY,
      ),
      given(`{ ${egress} }`),
      "changed isolated dns-blocked",
    ],
    [
      "a policy without a record of what was applied loses rules that the change omits",
      live("NetworkPolicy", "", `{ ${egress}, policyTypes: [Ingress, Egress] }`, "", POLICY),
      given("{ podSelector: {}, policyTypes: [Ingress, Egress] }"),
      "changed",
    ],
    [
      "an annotation set by others stays",
      live("NetworkPolicy", "", `{ ${ingress}, policyTypes: [Ingress] }`, "", POLICY).replace('"false"', '"true"'),
      given(`{ ${ingress} }`),
      "unchanged in-shadow",
    ],
    ["labels that others gave a Namespace stay", team, namespace(""), "unchanged"],
    ["labels that were applied to a Namespace and that the change omits go", byApply, namespace(""), "changed"],
    [
      "labels of a Namespace in a file that the change omits go",
      namespace(", labels: { team: a }"),
      namespace(""),
      "changed",
    ],
    [
      "a Service retains the port by which a load balancer checks nodes",
      live("Service", "", `{ ${balanced}${clusterIp}, healthCheckNodePort: 30090, ${served} }`),
      object("Service", "a", ` }\nspec: { ${balanced}${serve} }`),
      "unchanged",
    ],
    [
      "a Service retains its addresses and node ports",
      live("Service", "", `{ ${nodePort}${clusterIp}, ${served} }`),
      object("Service", "a", ` }\nspec: { ${nodePort}${serve} }`),
      "unchanged",
    ],
    [
      "a Service of another type loses its node ports",
      live("Service", "", `{ ${nodePort}${clusterIp}, ${served} }`),
      object("Service", "a", ` }\nspec: { ${serve} }`),
      "changed",
    ],
  ] as const) {
    it(`DRYRUN-02: ${what}`, async () => {
      const { policies, others, isolation, warnings } = await tryOut(there + pod("web", "web"), change);
      const seen = [
        ...[...policies, ...others].map((one) => one.change),
        ...isolation.map((one) => one.change),
        ...warnings.map(({ id }) => id),
      ];
      assert.equal(seen.join(" "), expected);
    });
  }
});

describe("cli/policy/dry_run: a template's pods", () => {
  const template = (labels: string): string =>
    `template: { metadata: { labels: { ${labels} } }, spec: { containers: [{ name: c, ports: [{ name: http, containerPort: 80 }] }] } }`;
  const deployment = (name: string, labels: string): string =>
    object("Deployment", name, ` }\nspec: { ${template(labels)} }`, "apps/v1");
  const HOST_PORT = "containerPort: 80, hostPort: 8080";
  const ray = (name: string, type: string): string =>
    pod(name, "r")
      .replace("pod-template-hash: h", `type: ${type}`)
      .replace("apps/v1, kind: ReplicaSet, name: r-h", "ray.io/v1, kind: RayCluster, name: r");
  const cluster = (...types: readonly string[]): string =>
    object(
      "RayCluster",
      "r",
      ` }\nspec: { groups: [${types.map((one) => `{ ${template(`app: r, type: ${one}`)} }`).join(", ")}] }`,
      "ray.io/v1",
    );
  const stateful = (replicas = ""): string =>
    object("StatefulSet", "db", ` }\nspec: { ${replicas}${template("app: db")} }`, "apps/v1");
  const decoy =
    "ownerReferences: [{ apiVersion: apps/v1, kind: ReplicaSet, name: web-h, controller: true }] }\nspec: { containers: [{ name: c }] }";
  for (const [what, before, change, expected] of [
    [
      "retain labels that Linkerd and Istio put on them, unless the template has them",
      pod("web", "web").replace(
        "app: web,",
        "app: web, linkerd.io/control-plane-ns: linkerd, service.istio.io/canonical-name: old,",
      ),
      deployment("web", "app: web, service.istio.io/canonical-name: old"),
      ["unchanged Pod shop/web"],
    ],
    [
      "change with its host ports",
      pod("web", "web"),
      deployment("web", "app: web").replace("containerPort: 80", HOST_PORT),
      ["changed Pod shop/web"],
    ],
    [
      "lose host ports that it no longer has",
      pod("web", "web").replace("containerPort: 80", HOST_PORT),
      deployment("web", "app: web"),
      ["changed Pod shop/web"],
    ],
    [
      "follow the one of several templates whose labels they have",
      ray("head", "head") + ray("worker", "worker"),
      cluster("head", "worker"),
      ["unchanged Pod shop/head", "unchanged Pod shop/worker"],
    ],
    [
      "are new for a template that no pod has",
      ray("head", "head"),
      cluster("head", "worker"),
      ["unchanged Pod shop/head", "added Pod shop/r_raycluster_2", "added Pod shop/r_raycluster_3"],
    ],
    [
      "include those of a Rollout's ReplicaSet",
      pod("web", "web").replace("pod-template-hash", "rollouts-pod-template-hash"),
      object("Rollout", "web", ` }\nspec: { ${template("app: web")} }`, "argoproj.io/v1alpha1"),
      ["unchanged Pod shop/web"],
    ],
    [
      "include those of a JobSet's Jobs",
      pod("a", "a")
        .replace("pod-template-hash: h", 'jobset.sigs.k8s.io/jobset-name: js, jobset.sigs.k8s.io/job-index: "0"')
        .replace("apps/v1, kind: ReplicaSet, name: a-h", "batch/v1, kind: Job, name: js-w-0"),
      object(
        "JobSet",
        "js",
        ` }\nspec: { jobs: [{ template: { spec: { ${template("app: a")} } } }] }`,
        "jobset.x-k8s.io/v1alpha2",
      ),
      ["unchanged Pod shop/a"],
    ],
    [
      "are added where a StatefulSet gets more replicas",
      stateful("replicas: 1, "),
      stateful("replicas: 3, "),
      ["unchanged Pod shop/db-0", "added Pod shop/db-1", "added Pod shop/db-2"],
    ],
    [
      "are deleted where a StatefulSet gets fewer replicas",
      stateful("replicas: 3, "),
      stateful("replicas: 1, "),
      ["unchanged Pod shop/db-0", "deleted Pod shop/db-1", "deleted Pod shop/db-2"],
    ],
    [
      "keep their number where a StatefulSet states none",
      stateful("replicas: 1, "),
      stateful(),
      ["unchanged Pod shop/db-0"],
    ],
    [
      "stay where a StatefulSet has more replicas than stand-ins",
      pod("db-25", "db").replace("ReplicaSet, name: db-h", "StatefulSet, name: db"),
      stateful("replicas: 30, "),
      ["unchanged Pod shop/db-25", ...Array.from({ length: 20 }, (_, i) => `added Pod shop/db-${i}`)],
    ],
    [
      "follow its template, even if a pod of the same change names the workload, too",
      pod("web", "web"),
      object("Pod", "decoy", `, labels: { app: web, pod-template-hash: h }, ${decoy}`) +
        deployment("web", "app: front"),
      ["added Pod shop/decoy", "changed Pod shop/web"],
    ],
  ] as const) {
    it(`DRYRUN-02: the pods of a workload ${what}`, async () => {
      const { others } = await tryOut(before, change);
      assert.deepEqual(
        others.map((one) => `${one.change} ${one.name}`),
        expected,
      );
    });
  }

  it("DRYRUN-02: pods that leave the host's network lose the node's address, and rules for it no longer match them", async () => {
    const ofNode = policy(
      "db",
      "{ podSelector: { matchLabels: { app: db } }, ingress: [{ from: [{ ipBlock: { cidr: 10.244.0.3/32 } }] }] }",
    );
    const host = pod("web", "web", ", hostNetwork: true");
    const { changes } = await tryOut(
      host + pod("db-0", "db").replace("nodeName: n1", "nodeName: n2") + ofNode,
      deployment("web", "app: web"),
    );
    assert.deepEqual(
      changes.map(({ change, from }) => [change, from]),
      [["removed", ["shop/deployment/web"]]],
    );
  });
});

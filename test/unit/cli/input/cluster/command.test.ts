import assert from "node:assert/strict";
import { memoryFiles, type Outcome, runCli } from "../../../../support/cli/cli.ts";
import { fixtureFiles } from "../../../../support/cli/golden.ts";
import { FakeCluster, type Fault, objectsIn, type RawObject } from "../../../../support/daemon/fake_cluster.ts";

const SHOP = objectsIn("test/fixtures/cli/shop");
const OPEN_POLICY: RawObject = {
  kind: "NetworkPolicy",
  apiVersion: "networking.k8s.io/v1",
  metadata: { name: "cart-out", namespace: "shop", managedFields: [{ manager: "kubectl" }] },
  spec: { podSelector: { matchLabels: { app: "cart" } }, policyTypes: ["Egress"], egress: [{}] },
};

/** Runs a command line with the shop as a running cluster and as files, unless others are given. */
const run = (
  args: readonly string[],
  cluster = new FakeCluster(SHOP),
  files = fixtureFiles("shop"),
): Promise<Outcome> => runCli(args, files, undefined, cluster);

/** Removes the places of objects, which differ between files and a cluster. */
const withoutPlaces = (text: string): string => text.replaceAll(/"(file|line)": .*\n/g, "");

/** Returns the shop with one more object, or with one that replaces another. */
function shopWith(object: RawObject, instead?: (object: RawObject) => boolean): FakeCluster {
  return new FakeCluster([...SHOP.filter((one) => instead?.(one) !== true), object]);
}

describe("commands on a running cluster", () => {
  it("CLUSTER-04: policies of other engines are named by one request for the API groups, and a refusal of it is named, too", async () => {
    const cluster = new FakeCluster(SHOP);
    const group = (name: string, version = "v1"): RawObject => ({
      name,
      versions: [{ groupVersion: `${name}/${version}` }],
    });
    const names = ["cilium.io", "crd.projectcalico.org", "security.istio.io", "crd.antrea.io", "networking.k8s.aws"];
    const engines = names.map((name) => group(name));
    cluster.groups = [...engines, group("apps"), group("policy.networking.k8s.io", "v1alpha1")];
    const { code, err } = await run(["policy", "matrix", "--cluster"], cluster);
    const named = [...err.matchAll(/^cluster: the cluster knows (.*): they are not read/gm)].map(([, what]) => what);
    assert.deepEqual(named, [
      "Cilium's policies",
      "Calico's policies",
      "Istio's AuthorizationPolicies",
      "Antrea's policies",
      "Amazon's ApplicationNetworkPolicies",
      "AdminNetworkPolicies",
    ]);
    assert.deepEqual([code, cluster.asked.filter((path) => path === "/apis").length], [0, 1]);
    cluster.groups = [group("policy.networking.k8s.io", "v1alpha2")];
    assert.doesNotMatch((await run(["policy", "matrix", "--cluster"], cluster)).err, /the cluster knows/);
    const refusing = new FakeCluster(SHOP, (path) =>
      path === "/apis" ? { status: 403, retryAfter: undefined, body: [] } : undefined,
    );
    assert.match(
      (await run(["policy", "matrix", "--cluster"], refusing)).err,
      /status 403: whether there are policies of other engines is not known/,
    );
  });

  const explained = ["--from", "shop/deployment/cart", "--to", "service/shop/catalog", "--port", "80"];
  for (const [command, ...args] of [
    ["policy matrix", "--by", "pod", "--port", "8080/TCP,53/UDP", "-o", "json"],
    ["policy matrix", "-o", "json"],
    ["policy lint", "-o", "json"],
    ["policy explain", ...explained, "-o", "json"],
    ["service explain", "--from", "shop/deployment/cart", "--to", "service/shop/catalog:80", "-o", "json"],
    ["rules", "--node", "worker-1"],
  ] as const) {
    it(`CLUSTER-01: ${[command, ...args].join(" ")} answers the same for a cluster as for files`, async () => {
      const words = [...command.split(" "), ...args];
      const ofFiles = await run([...words, "-f", "shop"]);
      const ofCluster = await run([...words, "--cluster"]);
      assert.notEqual(ofFiles.out, "", ofFiles.err);
      assert.equal(sorted(withoutPlaces(ofCluster.out)), sorted(withoutPlaces(ofFiles.out)));
      assert.deepEqual([ofCluster.code, ofCluster.err], [ofFiles.code, ofFiles.err]);
    });
  }

  it("CLUSTER-01: a directory called cluster is ./cluster, and the running cluster cannot be mixed with files", async () => {
    const files = memoryFiles({ "./cluster/a.yaml": "", "cluster/a.yaml": JSON.stringify(OPEN_POLICY) });
    const cluster = new FakeCluster(SHOP);
    assert.equal((await run(["policy", "diff", "./cluster", "./cluster"], cluster, files)).code, 0);
    assert.deepEqual(cluster.asked, []);
    const both = await run(["policy", "dry-run", "-f", "shop", "--against", "cluster", "shop"]);
    assert.deepEqual([both.code, both.out], [3, ""]);
    assert.match(both.err, /cluster: give nothing beside it; a file of this name is \.\/cluster/);
  });

  it("CLUSTER-06: a policy that is invalid, even in part, is never omitted: the command fails", async () => {
    const port = { port: 80, endPort: 7 };
    for (const spec of [
      { podSelector: {}, policyTypes: ["Ingres"] },
      { podSelector: {}, ingress: [{ ports: [port] }] },
    ]) {
      for (const command of ["matrix", "lint"]) {
        const outcome = await run(["policy", command, "--cluster"], shopWith({ ...OPEN_POLICY, spec }));
        assert.equal(outcome.code, command === "lint" ? 1 : 3, outcome.err);
        const reported = command === "lint" ? outcome.out : outcome.err;
        assert.match(reported, /NetworkPolicy shop\/cart-out/);
      }
    }
    const spec = { tier: "Nobody", priority: 1, subject: { namespaces: {} } };
    const policy = {
      kind: "ClusterNetworkPolicy",
      apiVersion: "policy.networking.k8s.io/v1alpha2",
      metadata: { name: "x" },
      spec,
    };
    const outcome = await run(["policy", "matrix", "--cluster"], shopWith(policy));
    assert.deepEqual([outcome.code, outcome.out], [3, ""]);
    assert.match(outcome.err, /^cluster: ClusterNetworkPolicy x: .*Nobody/);
  });

  it("CLUSTER-06: an item of another kind in a list of policies is an error, too", async () => {
    const odd = { apiVersion: "v1", metadata: { name: "x" } };
    const body = JSON.stringify({
      kind: "NetworkPolicyList",
      apiVersion: "networking.k8s.io/v1",
      items: [{ kind: "Secret", ...odd }],
    });
    const fault: Fault = (path) =>
      path.includes("/networkpolicies") ? { status: 200, retryAfter: undefined, body: [Buffer.from(body)] } : undefined;
    const outcome = await run(["policy", "matrix", "--cluster"], new FakeCluster(SHOP, fault));
    assert.deepEqual([outcome.code, outcome.out], [3, ""]);
    assert.match(outcome.err, /cluster: an object that is not of kind NetworkPolicy of networking\.k8s\.io\/v1\n/);
  });

  it("CLUSTER-06: any other invalid object is omitted with a remark", async () => {
    const pod = {
      kind: "Pod",
      apiVersion: "v1",
      metadata: { name: "Bad_Name", namespace: "shop" },
      spec: { containers: [] },
    };
    const outcome = await run(["policy", "matrix", "--cluster"], shopWith(pod));
    assert.equal(outcome.code, 0);
    assert.equal(outcome.out, (await run(["policy", "matrix", "--cluster"])).out);
    assert.match(outcome.err, /^cluster: Pod.*Bad_Name.* \(omitted\)\n$/);
    const linted = await run(["policy", "lint", "--cluster"], shopWith(pod));
    assert.match(linted.err, /Bad_Name/);
  });

  it("CLI-05: --cluster and --filename exclude each other, and options for a cluster need a cluster", async () => {
    const matrix = ["policy", "matrix"];
    for (const [args, words] of [
      [matrix, /required option '-f, --filename <path...>' not specified; a running cluster is read with --cluster/],
      [[...matrix, "-f", "shop", "--cluster"], /'--filename' and '--cluster' exclude each other/],
      [[...matrix, "-f", "shop", "--context", "a"], /'--context' is about a cluster; expected --cluster too/],
      [
        ["policy", "diff", "shop", "shop", "--kubeconfig", "k"],
        /'--kubeconfig' .* expected the word cluster as a side/,
      ],
      [
        ["policy", "dry-run", "-f", "shop", "--against", "shop", "--request-timeout", "1s"],
        /'--request-timeout' is about a cluster; expected --against cluster too/,
      ],
      [
        [...matrix, "--cluster", "--request-timeout", "soon"],
        /expected a time such as 30s or 1m30s, or 0 for no limit/,
      ],
      [["policy", "lint"], /required option '-f, --filename <path...>' not specified/],
    ] as const) {
      const cluster = new FakeCluster(SHOP);
      const outcome = await run(args, cluster);
      assert.deepEqual([outcome.code, outcome.out, cluster.asked], [2, "", []], args.join(" "));
      assert.match(outcome.err, words);
    }
    assert.equal((await run(["policy", "lint", "--list"])).code, 0);
  });
});

function sorted(text: string): string {
  return text.split("\n").toSorted().join("\n");
}

import assert from "node:assert/strict";
import { memoryFiles, runCli, matrixLines } from "../../../support/cli/cli.ts";
import { FakeCluster, statusOf } from "../../../support/daemon/fake_cluster.ts";
import { readObjects } from "../../../../objects/yaml/documents.ts";
import { ask, object } from "../../../support/cli/objects.ts";
import { ingress, NGINX, pathTo, waysInOf, WEB } from "../../../support/cli/ways_in.ts";

const INGRESS = ingress("web", `ingressClassName: nginx, rules: [${pathTo("web", "number: 80")}]`);

describe("ways in: reading", () => {
  it("INGRESS-06: an invalid Ingress or Gateway is omitted with its line, and the answer about pods stays", async () => {
    const healthy = NGINX + WEB + INGRESS;
    for (const [text, message] of [
      [
        ingress("bad", "rules: 7"),
        /^a\.yaml:\d+: Ingress shop\/bad: spec\.rules: 7; expected a list \(omitted: a way in by it is not known\)$/,
      ],
      [
        ingress("bad", `rules: [${pathTo("web", "number: x")}]`),
        /Ingress shop\/bad: spec\.rules\[0\]\.http\.paths\[0\]\.backend\.service\.port\.number: "x"; expected/,
      ],
      [
        object("gateway.networking.k8s.io/v1", "Gateway", "name: bad, namespace: shop", "spec: {}"),
        /Gateway shop\/bad: spec\.gatewayClassName: missing/,
      ],
      [
        "kind: Ingress\napiVersion: networking.k8s.io/v1\nmetadata: { name: bad, name: bad }\n---\n",
        /Ingress: a key stands twice in one object \(omitted: a way in by it is not known\)$/,
      ],
    ] as const) {
      const { open, err } = await waysInOf(text + healthy);
      assert.deepEqual(open, ["IngressClass nginx > shop/web: 8080/TCP"], text);
      assert.match(err.split("\n")[0] ?? "", message);
      const linted = await ask(text + healthy, "policy", "lint");
      assert.match(linted.err, /omitted: a way in by it is not known/, text);
    }
  });

  it("INGRESS-06: unsupported kinds and versions of ways in are reported, and the command continues", async () => {
    for (const [kind, apiVersion] of [
      ["Ingress", "extensions/v1beta1"],
      ["Ingress", "networking.k8s.io/v1beta1"],
      ["HTTPRoute", "gateway.networking.k8s.io/v1alpha2"],
      ["TLSRoute", "gateway.networking.k8s.io/v1alpha2"],
      ["Route", "route.openshift.io/v1"],
      ["IngressRoute", "traefik.io/v1alpha1"],
      ["HTTPProxy", "projectcontour.io/v1"],
      ["ListenerSet", "gateway.networking.k8s.io/v1"],
      ["XListenerSet", "gateway.networking.x-k8s.io/v1alpha1"],
      ["InferencePool", "inference.networking.k8s.io/v1"],
    ] as const) {
      const { open, err } = await waysInOf(
        object(apiVersion, kind, "name: old, namespace: shop") + WEB + NGINX + INGRESS,
      );
      assert.deepEqual(open, ["IngressClass nginx > shop/web: 8080/TCP"], kind);
      const reason = `this kind of "${apiVersion}" is not read (omitted: a way in by it is not known)`;
      assert.equal(err, `a.yaml:1: ${kind} shop/old: ${reason}\n`);
    }
  });

  it("CLUSTER-04: ways in of a running cluster are listed if it has their kinds, and a missing permission is reported", async () => {
    const objects = [...readObjects(NGINX + WEB + INGRESS, "a.yaml")].map(
      (one) => one as Readonly<Record<string, unknown>>,
    );
    const run = (command: string, cluster: FakeCluster) =>
      runCli(
        ["policy", command, "--cluster", ...(command === "matrix" ? ["-o", "json"] : [])],
        memoryFiles({}),
        undefined,
        cluster,
      );
    const whole = await run("matrix", new FakeCluster(objects));
    assert.equal(whole.err, "");
    assert.match(matrixLines(whole.out), /^outside through IngressClass nginx,shop\/web,8080\/TCP,8080\/TCP$/m);
    const forbidden = new FakeCluster(objects, (path) =>
      path.includes("/ingresses") ? statusOf(403, "no") : undefined,
    );
    const outcome = await run("matrix", forbidden);
    assert.equal(outcome.code, 0);
    assert.doesNotMatch(outcome.out, /through/);
    assert.match(matrixLines(outcome.out), /^edge\/nginx,shop\/web,all,all$/m);
    assert.match(
      outcome.err,
      /^cluster: https:\/\/cluster\.test:6443: list ingresses\.networking\.k8s\.io: 403, .* \(omitted: a way in by it is not known\)$/m,
    );
    const broken = new FakeCluster(objects, (path) =>
      path.includes("/ingresses") ? statusOf(500, "etcd") : undefined,
    );
    assert.equal((await run("matrix", broken)).code, 3, "other failures are errors");
    const asked = new FakeCluster(objects);
    await runCli(["rules", "--node", "n", "--cluster"], memoryFiles({}), undefined, asked);
    assert.ok(
      !asked.asked.some((path) => path.includes("ingress") || path.includes("gateway")),
      "ways in are listed only for answers that have them",
    );
  });
});

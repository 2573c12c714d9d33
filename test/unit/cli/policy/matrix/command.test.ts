import assert from "node:assert/strict";
import { parse } from "yaml";
import { asClusterNetworkPolicies } from "../../../../../cli/input/admin_policy.ts";
import { readObjects } from "../../../../../objects/yaml/documents.ts";
import { assertGolden, fixtureFiles } from "../../../../support/cli/golden.ts";
import { memoryFiles, type Outcome, runCli, matrixLines } from "../../../../support/cli/cli.ts";
import { ask, manifest, named, networkPolicy, objectsIn, pod } from "../../../../support/cli/objects.ts";

const PORTS = "8080,9090/TCP,53/UDP";

function matrix(name: string, ...args: readonly string[]): Promise<Outcome> {
  return runCli(["policy", "matrix", "-f", name, ...args], fixtureFiles(name));
}

const xPod = (name: string, spec = ""): string => pod(`x/${name}`, "", { spec });

function onPods(text: string, ...args: readonly string[]): Promise<Outcome> {
  return ask(text, "policy", "matrix", ...args);
}

describe("policy matrix: output", () => {
  it("CNP-19: an AdminNetworkPolicy is refused with the ClusterNetworkPolicy to write instead, of which only a part is printed", async () => {
    const policyOf = (kind: string, rules: number): string => {
      const each = Array.from(
        { length: rules },
        (_, i) => `{ action: Allow, from: [{ namespaces: {} }], name: r${i} }`,
      );
      const spec = `subject: { namespaces: {} }, ingress: [${each.join(", ")}]`;
      return manifest(
        kind,
        "name: default",
        `spec: { ${kind === "AdminNetworkPolicy" ? "priority: 7, " : ""}${spec} }`,
      );
    };
    for (const kind of ["AdminNetworkPolicy", "BaselineAdminNetworkPolicy"]) {
      const { code, out, err } = await onPods(xPod("a") + policyOf(kind, 1), "--port", "80");
      assert.deepEqual([code, out], [3, ""]);
      assert.match(
        err,
        /^a\.yaml:3: \w+ of "policy\.networking\.k8s\.io\/v1alpha1": .*use ClusterNetworkPolicy of policy/,
      );
      const [, written = ""] = err.split("\n  write instead:\n");
      const [policy] = [...readObjects(written.split("\n").slice(0, -2).join("\n"), "x.yaml")];
      const conversion = asClusterNetworkPolicies(objectsIn(policyOf(kind, 1))[0]);
      assert.deepEqual(policy, conversion.type === "converted" && parse(conversion.yaml));
    }
    const large = await onPods(policyOf("AdminNetworkPolicy", 100), "--port", "80");
    assert.match(large.err, /\n {4}# and \d+ more lines: `drawbridge policy lint` prints all of them\n/);
    assert.ok(large.err.split("\n").length < 70, large.err);
    const odd = await onPods(manifest("AdminNetworkPolicy", "name: default", "spec: { subject: 7 }"), "--port", "80");
    assert.doesNotMatch(odd.err, /write instead/, "what cannot be converted is not guessed");
  });

  it("MATRIX-06: a policy in shadow is reported and has no effect", async () => {
    const shadow = named("x/try", 'annotations: { drawbridge.dev/shadow: "true" }');
    const objects = xPod("a") + xPod("b") + manifest("NetworkPolicy", shadow, "spec: { podSelector: {} }");
    const now = await onPods(objects, "--port", "80", "-o", "json");
    assert.match(matrixLines(now.out), /^x\/a,x\/b,80,TCP,yes$/m);
    assert.equal(now.err, "in shadow and not in force: x/try; policy explain says what they would do\n");
  });

  for (const by of ["workload", "pod", "namespace"]) {
    it(`MATRIX-03: the shop by ${by} as a table, its connections and some ports`, async () => {
      for (const [name, ports] of [
        ["connections", []],
        ["ports", ["--port", PORTS]],
      ] as const) {
        const { code, out, err } = await matrix("shop", "--by", by, ...ports);
        assert.equal(code, 0, err);
        assertGolden(`matrix/shop_${by}_${name}.table.txt`, out);
      }
    });
  }

  for (const args of [
    ["--by", "workload"],
    ["--by", "namespace"],
    ["--by", "pod", "--port", "8080"],
  ] as const) {
    it(`MATRIX-03: tenants kept apart by ClusterNetworkPolicies, ${args.join(" ")}`, async () => {
      const files = fixtureFiles("tenants/before");
      const { code, out, err } = await runCli(["policy", "matrix", "-f", "tenants/before", ...args], files);
      assert.equal(code, 0, err);
      assertGolden(`matrix/tenants_${args.join("_").replaceAll("--", "")}.txt`, out);
    });
  }

  it("MATRIX-03: no line is wider than the terminal, and there is no colour without a request", async () => {
    for (const columns of [80, 120]) {
      const { out } = await runCli(["policy", "matrix", "-f", "shop"], fixtureFiles("shop"), {
        columns,
        hasColour: false,
      });
      assertGolden(`matrix/shop_terminal_${columns}.txt`, out);
      for (const line of out.split("\n")) assert.ok(line.length <= columns, line);
    }
  });

  it("MATRIX-03: by pod and port the JSON is a list of {from, to, port, protocol, allowed}, a pod with itself included", async () => {
    const pods = xPod("a") + xPod("b") + manifest("Pod", named("x/c"), "status: { phase: Succeeded }");
    const { code, out } = await onPods(pods, "--by", "pod", "--port", "80/TCP,53/UDP", "-o", "json");
    assert.equal(code, 0);
    const pairs = ["x/a", "x/b"].flatMap((from) => ["x/a", "x/b"].map((to) => ({ from, to })));
    const expected = pairs.flatMap((pair) => [
      { ...pair, port: 80, protocol: "TCP", allowed: true },
      { ...pair, port: 53, protocol: "UDP", allowed: true },
    ]);
    const entries = JSON.parse(out) as readonly { readonly from: string; readonly to: string }[];
    assert.deepEqual(
      entries.filter(({ from, to }) => !`${from} ${to}`.includes("outside")),
      expected,
    );
  });

  it("MATRIX-02: omitted pairs are reported on standard error", async () => {
    const { err } = await matrix("shop", "--by", "pod");
    assert.match(err, /^not listed: /);
    assert.equal((await matrix("shop", "--by", "pod", "-o", "json")).err, "");
  });
});

describe("policy matrix: its command line", () => {
  it("CLI-05: an invalid option is a usage error", async () => {
    for (const args of [
      ["--by", "node"],
      ["-o", "xml"],
      ["--port", "80/ICMP"],
      ["--port", "0"],
      ["--port", "65536"],
      ["--port", ""],
    ]) {
      const { code, out, err } = await matrix("shop", ...args);
      assert.equal(code, 2, args.join(" "));
      assert.equal(out, "");
      assert.match(err, /error: option/);
    }
    assert.equal((await runCli(["policy", "matrix"], memoryFiles({}))).code, 2, "without -f");
  });

  it("MATRIX-03: the list for the outside below a grid has no line of a pod with itself", async () => {
    const pods = ["api", "foo", "web", "mon"].map((name) => pod(`a-long-namespace/${name}`)).join("");
    const web = networkPolicy("a-long-namespace/web", "podSelector: { matchLabels: { app: web } }");
    const screen = { columns: 130, hasColour: false };
    const files = memoryFiles({ "a.yaml": pods + web });
    const { out } = await runCli(["policy", "matrix", "-f", "a.yaml"], files, screen);
    assert.match(out, /\n\nFROM +CONNECTIONS +TO\nall pods +all +outside\noutside +all +/);
    assert.doesNotMatch(out.split("\n\n")[1] ?? "", /a-long-namespace\/\w+ +all/);
  });
});

import assert from "node:assert/strict";
import { isDeepStrictEqual } from "node:util";
import * as v from "valibot";
import { parse } from "yaml";
import { asClusterNetworkPolicies } from "../../../../../cli/input/admin_policy.ts";
import { readObjects } from "../../../../../objects/yaml/documents.ts";
import { assertGolden, fixtureFiles } from "../../../../support/cli/golden.ts";
import { memoryFiles, type Outcome, runCli, matrixLines } from "../../../../support/cli/cli.ts";
import { MATRIX_FORMATS } from "../../../../../cli/policy/matrix/command.ts";

const entriesSchema = v.array(v.object({ from: v.string(), to: v.string(), allowed: v.boolean() }));
const PORTS = "8080,9090/TCP,53/UDP";

function matrix(name: string, ...args: readonly string[]): Promise<Outcome> {
  return runCli(["policy", "matrix", "-f", name, ...args], fixtureFiles(name));
}

function podNamed(name: string, rest: object = {}): object {
  return { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "x" }, status: { phase: "Running" }, ...rest };
}

function onPods(pods: readonly object[], ...args: readonly string[]): Promise<Outcome> {
  return runCli(
    ["policy", "matrix", "-f", "pods.json", ...args],
    memoryFiles({ "pods.json": pods.map((pod) => JSON.stringify(pod)).join("\n") }),
  );
}

const POLICY_IN_SHADOW = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "try", namespace: "x", annotations: { "drawbridge.dev/shadow": "true" } },
  spec: { podSelector: {} },
};

describe("policy matrix: output", () => {
  it("CNP-19: an AdminNetworkPolicy is refused with the ClusterNetworkPolicy to write instead, of which only a part is printed", async () => {
    const policyOf = (kind: string, rules: number): object => ({
      apiVersion: "policy.networking.k8s.io/v1alpha1",
      kind,
      metadata: { name: "default" },
      spec: {
        ...(kind === "AdminNetworkPolicy" ? { priority: 7 } : {}),
        subject: { namespaces: {} },
        ingress: Array.from({ length: rules }, (_, i) => ({
          action: "Allow",
          from: [{ namespaces: {} }],
          name: `r${i}`,
        })),
      },
    });
    for (const kind of ["AdminNetworkPolicy", "BaselineAdminNetworkPolicy"]) {
      const { code, out, err } = await onPods([podNamed("a"), policyOf(kind, 1)], "--port", "80");
      assert.deepEqual([code, out], [3, ""]);
      assert.match(
        err,
        /^pods\.json:2: \w+ of "policy\.networking\.k8s\.io\/v1alpha1": .*use ClusterNetworkPolicy of policy/,
      );
      const [, written = ""] = err.split("\n  write instead:\n");
      const [policy] = [...readObjects(written.split("\n").slice(0, -2).join("\n"), "x.yaml")];
      const conversion = asClusterNetworkPolicies(policyOf(kind, 1));
      assert.deepEqual(policy, conversion.type === "converted" && parse(conversion.yaml));
    }
    const large = await onPods([policyOf("AdminNetworkPolicy", 100)], "--port", "80");
    assert.match(large.err, /\n {4}# and \d+ more lines: `drawbridge policy lint` prints all of them\n/);
    assert.ok(large.err.split("\n").length < 70, large.err);
    const odd = await onPods([{ ...policyOf("AdminNetworkPolicy", 1), spec: { subject: 7 } }], "--port", "80");
    assert.doesNotMatch(odd.err, /write instead/, "what cannot be converted is not guessed");
  });

  it("MATRIX-03: the ports of several --port options add up", async () => {
    const args = ["--port", "80", "--port", "443,53/UDP", "-o", "json", "--by", "pod"];
    const { out } = await onPods([podNamed("a"), podNamed("b")], ...args);
    for (const port of ["80,TCP", "443,TCP", "53,UDP"])
      assert.ok(matrixLines(out).includes(`x/a,x/b,${port},yes`), out);
  });

  it("MATRIX-06: a policy in shadow is reported and has no effect, unless --with-shadow treats it as enforced", async () => {
    const objects = [podNamed("a"), podNamed("b"), POLICY_IN_SHADOW];
    const now = await onPods(objects, "--port", "80", "-o", "json");
    assert.match(matrixLines(now.out), /^x\/a,x\/b,80,TCP,yes$/m);
    assert.equal(now.err, "in shadow and not in force: x/try; --with-shadow shows what they would do\n");
    const then = await onPods(objects, "--port", "80", "-o", "json", "--with-shadow");
    assert.match(matrixLines(then.out), /^x\/a,x\/b,80,TCP,no$/m);
    assert.equal(then.err, "");
  });

  // A grouping changes the rows, and a format how they are printed, so each format is checked with one grouping.
  for (const [by, formats] of [
    ["workload", ["table", "json", "md"]],
    ["pod", ["table"]],
    ["namespace", ["table"]],
  ] as const) {
    for (const format of formats) {
      it(`MATRIX-03: the shop by ${by} as ${format}, its connections and some ports`, async () => {
        for (const [name, ports] of [
          ["connections", []],
          ["ports", ["--port", PORTS]],
        ] as const) {
          const { code, out, err } = await matrix("shop", "--by", by, "-o", format, ...ports);
          assert.equal(code, 0, err);
          assertGolden(`matrix/shop_${by}_${name}.${format}.txt`, out);
        }
      });
    }
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

  it("MATRIX-04: by pod and port the JSON is a list of {from, to, port, protocol, allowed}, a pod with itself included", async () => {
    const pods = [podNamed("a"), podNamed("b"), podNamed("c", { status: { phase: "Succeeded" } })];
    const { code, out } = await onPods(pods, "--by", "pod", "--port", "80/TCP,53/UDP", "-o", "json");
    assert.equal(code, 0);
    const pairs = ["x/a", "x/b"].flatMap((from) => ["x/a", "x/b"].map((to) => ({ from, to })));
    const expected = pairs.flatMap((pair) => [
      { ...pair, port: 80, protocol: "TCP", allowed: true },
      { ...pair, port: 53, protocol: "UDP", allowed: true },
    ]);
    const entries = v
      .parse(entriesSchema, JSON.parse(out))
      .filter(({ from, to }) => !`${from} ${to}`.includes("outside"));
    assert.deepEqual(
      entries,
      expected.map(({ from, to, allowed }) => ({ from, to, allowed })),
    );
    assert.deepEqual(
      (JSON.parse(out) as object[]).filter((one) => expected.some((other) => isDeepStrictEqual(one, other))),
      expected,
    );
  });

  it("POL-60: many pods that are alike share one line", async () => {
    const pods = Array.from({ length: 300 }, (_, i) => podNamed(`p${i}`));
    const { out } = await onPods([...pods, podNamed("q", { metadata: { name: "q", namespace: "y" } })], "--by", "pod");
    assert.equal(
      out,
      "FROM       CONNECTIONS   TO\nall pods   all           all pods, outside\noutside    all           all pods\n",
    );
    const metadata = { name: "deny", namespace: "x" };
    const deny = { apiVersion: "networking.k8s.io/v1", kind: "NetworkPolicy", metadata, spec: {} };
    const other = podNamed("q", { metadata: { name: "q", namespace: "y" } });
    const { out: closed } = await onPods([...pods, other, deny], "--by", "pod");
    assert.equal(
      closed,
      "FROM       CONNECTIONS   TO\nall pods   all           y/q, outside\noutside    all           y/q\n",
    );
  });

  it("POL-60: omitted pairs are reported on standard error", async () => {
    const { err } = await matrix("shop", "--by", "pod");
    assert.match(err, /^not listed: /);
    assert.equal((await matrix("shop", "--by", "pod", "-o", "json")).err, "");
  });

  it("POL-60: stderr says that a pod and its own node are not isolated, where a pod's node is unknown", async () => {
    const host = podNamed("agent", { spec: { nodeName: "n1", hostNetwork: true } });
    const said = /^not known: on which node some pods run; NetworkPolicies do not stop traffic /m;
    assert.match((await onPods([podNamed("a"), host])).err, said);
    assert.doesNotMatch((await onPods([podNamed("a", { spec: { nodeName: "n1" } }), host])).err, said);
    assert.doesNotMatch((await onPods([podNamed("a"), podNamed("b")])).err, said);
  });

  it("the answer without pods is empty, in every format", async () => {
    for (const format of MATRIX_FORMATS) {
      const { code, out } = await onPods(
        [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "x" } }],
        "-o",
        format,
      );
      assert.equal(code, 0);
      assert.doesNotMatch(out.replace(/^<!doctype[^]*<body>/, "").replace(/<script>[^]*/, ""), /x\/|->|-->/);
      if (format === "json") assert.deepEqual(JSON.parse(out), []);
    }
  });

  it("names from objects cannot end a line or inject syntax of a format", async () => {
    const evil = '\u001b[31m"];\n<b>,=1\u202e';
    const owner = { apiVersion: "v1", kind: evil, name: evil, controller: true };
    for (const format of MATRIX_FORMATS) {
      const { code, out } = await onPods(
        [podNamed("a", { metadata: { name: "a", namespace: "x", ownerReferences: [owner] } })],
        "-o",
        format,
      );
      assert.ok(code === 0 || code === 3);
      assert.ok(!out.includes("\u001b") && !out.includes("\u202e"), out);
    }
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

  it("CLI-05: an invalid object ends with 3 and no answer", async () => {
    const bad = {
      apiVersion: "networking.k8s.io/v1",
      kind: "NetworkPolicy",
      metadata: { name: "deny", namespace: "x" },
      spec: { podSelector: 5 },
    };
    const { code, out, err } = await onPods([podNamed("a"), bad]);
    assert.equal(code, 3);
    assert.equal(out, "");
    assert.match(err, /^pods\.json:2: NetworkPolicy x\/deny: spec\.podSelector: /);
  });

  it("MATRIX-11: the list for the outside below a grid has no line of a pod with itself", async () => {
    const names = ["api", "foo", "web", "mon"];
    const pods = names.map(
      (name) =>
        `---\napiVersion: v1\nkind: Pod\nmetadata: { name: ${name}, namespace: a-long-namespace, labels: { app: ${name} } }\n`,
    );
    const web =
      "---\napiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: { name: web, namespace: a-long-namespace }\nspec: { podSelector: { matchLabels: { app: web } } }\n";
    const screen = { columns: 130, hasColour: false };
    const { out } = await runCli(
      ["policy", "matrix", "-f", "a.yaml"],
      memoryFiles({ "a.yaml": pods.join("") + web }),
      screen,
    );
    assert.match(out, /\n\nFROM +CONNECTIONS +TO\nall pods +all +outside\noutside +all +/);
    assert.doesNotMatch(out.split("\n\n")[1] ?? "", /a-long-namespace\/\w+ +all/);
  });
});

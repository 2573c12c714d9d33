import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { VERSION } from "../../../../policyd/version.ts";
import { IGNORE_ANNOTATION } from "../../../../cli/policy/lint/silence.ts";
import { RULES } from "../../../../cli/policy/lint/rules.ts";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { assertGolden } from "../../../support/cli/golden.ts";
import { pod, policy } from "../../../support/cli/lint_case.ts";
import { manifest } from "../../../support/cli/objects.ts";

const FIXTURES = "test/fixtures/cli/lint";
const SHOP = Object.fromEntries(
  ["policies.yaml", "shop.yaml"].map((name) => [`shop/${name}`, readFileSync(`${FIXTURES}/${name}`, "utf8")]),
);

interface Entry extends Readonly<Record<"id" | "severity" | "object" | "file" | "fix" | "documentation", string>> {
  readonly line: number;
}

/** Returns the findings that -o json prints. */
const entriesOf = (out: string) => JSON.parse(out) as readonly Entry[];

const lintShop = (...args: readonly string[]): ReturnType<typeof runCli> =>
  runCli(["policy", "lint", "-f", "shop", ...args], memoryFiles(SHOP));

describe("policy lint", () => {
  it("LINT-01: every finding has its rule, severity, place and fix, in each format", async () => {
    const file = await lintShop();
    assertGolden("lint/expected.txt", file.out);
    const { out } = await lintShop("-o", "json");
    assertGolden("lint/expected.json", out);
    assert.equal(file.code, 1);
    assert.match(file.err, /^not everything could be read/);
    const terminal = await runCli(["policy", "lint", "-f", "shop"], memoryFiles(SHOP), {
      columns: 80,
      hasColour: false,
    });
    // A single word may be longer than the rest of the line.
    const tooLong = terminal.out.split("\n").filter((line) => line.length > 80 && line.slice(41).includes(" "));
    assert.deepEqual(tooLong, []);
  });

  it("LINT-01: SARIF 2.1.0 has all rules and findings", async () => {
    // The expected text has every field of sections 3.13 to 3.54 of the specification that is written.
    const odd = { "/tmp/a b.yaml": "kind: [", "c:d#é.yaml": pod("web") + policy("p", "podSelector: { a: b }") };
    const args = ["policy", "lint", "-o", "sarif", "--only", "invalid,not-expressible", "-f", ...Object.keys(odd)];
    const { out } = await runCli(args, memoryFiles(odd));
    assertGolden("lint/odd_names.sarif", out.replace(VERSION, "VERSION"));
    const whole = await lintShop("-o", "sarif");
    assert.equal(whole.code, 1);
    const textsIn = (field: string) =>
      [...whole.out.matchAll(new RegExp(`"${field}": "?([^",\\n]*)`, "g"))].map(([, one]) => one);
    const rules = RULES.filter(({ isOffByDefault }) => isOffByDefault !== true).map(({ id }) => id);
    assert.deepEqual(textsIn("id"), rules);
    const found = entriesOf((await lintShop("-o", "json")).out);
    assert.deepEqual(
      textsIn("ruleIndex").map((index) => rules[Number(index)]),
      found.map(({ id }) => id),
    );
    assert.deepEqual(
      textsIn("startLine"),
      found.map(({ line }) => `${line}`),
    );
  });

  it("LINT-03: --fail-on sets the lowest severity with exit code 1", async () => {
    const service = manifest(
      "Service",
      "name: s, namespace: shop",
      "spec: { externalIPs: [192.0.2.1], ports: [{ port: 80 }] }",
    );
    const codes = async (yaml: string): Promise<readonly number[]> =>
      Promise.all(
        ["error", "warning", "info"].map(async (severity) => {
          const args = ["policy", "lint", "-f", "a.yaml", "--fail-on", severity];
          return (await runCli(args, memoryFiles({ "a.yaml": yaml }))).code;
        }),
      );
    assert.deepEqual(await codes("kind: ["), [1, 1, 1]);
    assert.deepEqual(await codes(service), [0, 1, 1]);
    assert.deepEqual(
      await codes(policy("p", "podSelector: {}, ingress: [{ from: [{ namespaceSelector: {}, podSelector: {} }] }]")),
      [0, 0, 1],
    );
    assert.deepEqual(await codes(policy("p", "podSelector: {}")), [0, 0, 0]);
    const byDefault = await runCli(["policy", "lint", "-f", "a.yaml"], memoryFiles({ "a.yaml": service }));
    assert.equal(byDefault.code, 1);
  });

  it("LINT-04: --only and --ignore choose rules, --list prints them, and an annotation silences rules on one object", async () => {
    const idsOf = async (yaml: string, ...args: readonly string[]): Promise<readonly string[]> => {
      const { out } = await runCli(
        ["policy", "lint", "-f", "a.yaml", "-o", "json", ...args],
        memoryFiles({ "a.yaml": yaml }),
      );
      return entriesOf(out).map(({ id }) => id);
    };
    const service = (name: string, ignored: string): string =>
      manifest(
        "Service",
        `name: ${name}, namespace: shop, annotations: { ${IGNORE_ANNOTATION}: "${ignored}" }`,
        'spec: { externalIPs: [192.0.2.1], topologyKeys: ["*"], ports: [{ port: 80 }] }',
      );
    const plain = service("s", "");
    assert.deepEqual(await idsOf(plain), ["external-ips", "topology-keys"]);
    assert.deepEqual(await idsOf(plain, "--only", "topology-keys,shadowed"), ["topology-keys"]);
    assert.deepEqual(await idsOf(plain, "--ignore", "topology-keys"), ["external-ips"]);
    assert.deepEqual(await idsOf(plain, "--ignore", "external-ips", "--ignore", "shadowed"), ["topology-keys"]);
    assert.deepEqual(await idsOf(plain, "--only", "external-ips", "--only", "shadowed"), ["external-ips"]);
    assert.deepEqual(await idsOf(service("s", "shadowed, external-ips")), ["topology-keys"]);
    assert.deepEqual(await idsOf(service("s", "external-ips,topology-keys") + service("t", "external-ips")), [
      "topology-keys",
    ]);
    const unknown = await runCli(
      ["policy", "lint", "-f", "a.yaml", "--ignore", "topology-kyes"],
      memoryFiles({ "a.yaml": plain }),
    );
    assert.deepEqual(
      [unknown.code, unknown.err],
      [2, 'error: "topology-kyes" is not a rule; did you mean topology-keys?\n'],
    );
    const list = await runCli(["policy", "lint", "--list"], memoryFiles({}));
    assert.deepEqual([list.code, list.out.trimEnd().split("\n").length], [0, RULES.length + 1]);
    assert.equal((await runCli(["policy", "lint"], memoryFiles({}))).code, 2);
    assert.equal((await runCli(["policy", "lint", "-f", "nowhere"], memoryFiles({}))).code, 3);
  });

  it("LINT-03: findings about other engines are reported only if --only names them, and --min-severity hides others without changing the exit code", async () => {
    const ids = async (...args: readonly string[]): Promise<readonly string[]> => {
      const { out, code } = await lintShop("-o", "json", ...args);
      assert.equal(code, args.includes("engines-differ") ? 0 : 1);
      return [
        ...new Set(entriesOf(out).map(({ id, severity }) => (args.includes("--min-severity") ? severity : id))),
      ].sort();
    };
    assert.ok(!(await ids()).includes("engines-differ"));
    assert.deepEqual(await ids("--only", "engines-differ"), ["engines-differ"]);
    assert.deepEqual(await ids("--min-severity", "info"), ["error", "info", "warning"]);
    assert.deepEqual(await ids("--min-severity", "warning"), ["error", "warning"]);
    assert.deepEqual(await ids("--min-severity", "error", "--fail-on", "info"), ["error"]);
  });

  it("LINT-01: with --documentation each rule and finding has an absolute link; any other address is refused", async () => {
    const page = "https://example.com/docs/lint.md";
    const sarif = (await lintShop("-o", "sarif", "--documentation", page)).out;
    for (const { id } of RULES.filter(({ isOffByDefault }) => isOffByDefault !== true))
      assert.ok(sarif.includes(`"helpUri": "${page}#${id}"`), id);
    const { out } = await lintShop("-o", "json", "--documentation", page);
    for (const { id, documentation } of entriesOf(out)) assert.equal(documentation, `${page}#${id}`);
    for (const wrong of ["docs/lint.md", "http://example.com", "javascript:alert(1)"])
      assert.equal((await lintShop("--documentation", wrong)).code, 2, wrong);
  });

  it("LINT-05: a finding that an unreadable object may have caused is info, and says so", async () => {
    const pods = pod("web") + pod("db");
    const web = "podSelector: { matchLabels: { app: web } }";
    const unreadPolicy = policy("broken", `${web}, ingress: [{ ports: [{ port: 0 }] }]`);
    const closed = policy("all", "podSelector: {}, policyTypes: [Ingress, Egress]");
    const db = "podSelector: { matchLabels: { app: db } }";
    const fromWeb = `${db}, ingress: [{ from: [{ ${web} }] }]`;
    const unreadPod = pod("api", { spec: "containers: [{ ports: [{ containerPort: 0 }] }]" });
    const forApi = policy("api", "podSelector: { matchLabels: { app: api } }");
    const found = async (yaml: string): Promise<readonly string[]> => {
      const args = ["policy", "lint", "-f", "a.yaml", "-o", "json"];
      const { out, err } = await runCli(args, memoryFiles({ "a.yaml": yaml }));
      assert.equal(err, "not everything could be read, so findings about the rest may be wrong or missing\n");
      return entriesOf(out).flatMap(({ id, severity, fix }) => (id === "invalid" ? [] : [`${severity} ${id}: ${fix}`]));
    };
    const doubt = "correct what cannot be read first: this may be due to it";
    assert.deepEqual(await found(pods + unreadPolicy + closed + policy("db", fromWeb)), [`info redundant: ${doubt}`]);
    assert.deepEqual(await found(pods + unreadPod + forApi), [`info selects-nothing: ${doubt}`]);
    // The objects that cannot be read are not of the sort by which the rule judges.
    assert.deepEqual(await found(pods + unreadPolicy + policy("api", "podSelector: { matchLabels: { app: wbe } }")), [
      "warning selects-nothing: there is no app=wbe; probably app=web is meant",
    ]);
    assert.deepEqual(await found(unreadPolicy), []);
  });

  it("LINT-05: a template is reported once, and objects in one line each", async () => {
    const template =
      "{ metadata: { labels: { app: web } }, spec: { containers: [{ ports: [{ name: A, containerPort: 1 }] }] } }";
    const files = {
      "a.yaml": `apiVersion: apps/v1\nkind: Deployment\nmetadata: { name: web }\nspec: { template: ${template} }\n`,
      "b.json": ["s", "t"]
        .map((name) =>
          JSON.stringify({
            apiVersion: "v1",
            kind: "Service",
            metadata: { name },
            spec: { topologyKeys: ["*"], ports: [{ port: 80 }] },
          }),
        )
        .join(""),
    };
    const args = ["policy", "lint", "-o", "json", "-f", ...Object.keys(files)];
    const { out } = await runCli(args, memoryFiles(files));
    assert.deepEqual(
      entriesOf(out).map(({ id, object }) => `${id} ${object}`),
      ["invalid Deployment default/web", "topology-keys Service default/s", "topology-keys Service default/t"],
    );
  });

  it("every rule of policy lint has an ID of its own", () => {
    assert.equal(new Set(RULES.map(({ id }) => id)).size, RULES.length);
  });
});

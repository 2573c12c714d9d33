import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { memoryFiles, runCli } from "../../../support/cli/cli.ts";
import { assertGolden } from "../../../support/cli/golden.ts";

const CLUSTER = readFileSync("test/fixtures/cli/rules/cluster.yaml", "utf8");
const POLICIES = readFileSync("test/fixtures/cli/rules/policies.yaml", "utf8");

const rules = (
  node: string,
  contents: Readonly<Record<string, string>>,
  ...args: readonly string[]
): ReturnType<typeof runCli> =>
  runCli(
    ["rules", "-f", "cluster.yaml", "--node", node, ...args],
    memoryFiles({ "cluster.yaml": CLUSTER, ...contents }),
  );

/** Returns the printed sets that have elements. */
const filledSets = (text: string): readonly string[] =>
  (text.match(/^\t(?:set|map) .*?^\t\}\n/gms) ?? []).filter((set) => set.includes("elements"));

/** Returns the elements of a set or map. */
const elementsOf = (text: string, set: string): readonly string[] => {
  const found = filledSets(text).find((one) => /^\t(?:set|map) (\S+) \{/.exec(one)?.[1] === set) ?? "";
  return [...found.matchAll(/^\t{3}(.*),$/gm)].map(([, element = ""]) => element);
};

describe("rules", () => {
  it("RULES-01: the tables have the elements that the node's daemon would claim, and comments about what is missing", async () => {
    const { code, out, err } = await rules("worker-1", {});
    assert.deepEqual([code, err], [0, ""]);
    // Other tests check rules and empty sets.
    const head = out.slice(0, out.indexOf("table "));
    assertGolden("rules/expected.txt", head + filledSets(out).join(""));
    assert.match(out, /^# Pods of the node: shop\/web-1\.$/m);
    assert.match(out, /^# Service shop\/forgotten has no EndpointSlice among the files and no pod with an address/m);
    assert.match(out, /^# Service shop\/by-selector .*: its endpoints are the pods that app=web selects\.$/m);
    assert.match(out, /^\t{3}10\.96\.0\.12 \. tcp \. 80 : 10\.244\.2\.7 \. 8080,$/m);
    assert.deepEqual(elementsOf(out, "localpods4"), ["10.244.1.7"]);
    assert.deepEqual(elementsOf(out, "pod4"), []);
  });

  it("RULES-01: the tables have the policies of the node's pods, and none of policies for other pods", async () => {
    const text = async (node: string, policies: string, ...args: readonly string[]): Promise<string> =>
      (await rules(node, { "policies.yaml": policies }, "-f", "policies.yaml", ...args)).out;
    const out = await text("worker-1", POLICIES);
    const table = out.slice(out.indexOf("table inet drawbridge-policy"));
    const chains = table.match(/^\tchain (?:in|e)gress_.*?^\t\}\n/gms) ?? [];
    assertGolden("rules/expected_policies.txt", [...filledSets(table), ...chains].join(""));
    const other = await text("worker-2", POLICIES);
    assert.deepEqual(elementsOf(other, "known4"), ["10.244.2.7"]);
    assert.deepEqual(
      elementsOf(other, "ingress4").map((element) => element.replace("10.244.2.7", "10.244.1.7")),
      elementsOf(out, "ingress4"),
    );
    const none = (await rules("worker-1", {})).out;
    assert.deepEqual(
      [elementsOf(none, "known4"), elementsOf(none, "ingress4")],
      [["10.244.1.7"], ["10.244.1.7 : return"]],
    );
    const external = "10.0.0.12\n    - type: ExternalIP\n      address: 10.244.1.7";
    const cluster = CLUSTER.replace("10.0.0.12", external);
    assert.ok(cluster !== CLUSTER);
    const named = (
      await rules("worker-1", { "policies.yaml": POLICIES, "cluster.yaml": cluster }, "-f", "policies.yaml")
    ).out;
    assert.equal(named, out, "another node's pod keeps its address, as in the daemon");
    const backwards = POLICIES.split("---\n").toReversed().join("\n---\n");
    assert.equal(await text("worker-1", backwards), out, "the order of the policies does not matter");
  });

  it("RULES-01: a policy's content that rules do not implement is reported", async () => {
    const shadow = (value: string): string =>
      POLICIES.replace("  name: front-only", `  name: front-only\n  annotations: {drawbridge.dev/shadow: "${value}"}`);
    const reported = async (value: string): Promise<string> =>
      (await rules("worker-1", { "policies.yaml": shadow(value) }, "-f", "policies.yaml")).out;
    assert.match(
      await reported("yes"),
      /^# NetworkPolicy shop\/front-only: .*"yes" is not "true": the policy is in force$/m,
    );
    const tried = await reported("true");
    assert.doesNotMatch(tried, /^# NetworkPolicy|counter drop comment "isolated by/m);
    assert.match(tried, /counter comment "would be isolated by shop\/front-only"/);
  });

  it("RULES-01: policyd's configuration is applied, and an invalid one is an error", async () => {
    const configuration =
      "apiVersion: drawbridge.dev/v1alpha1\nkind: PolicydConfiguration\nbridge: br7\ntableOwner: true\n";
    const { out, code } = await rules("worker-1", { "policyd.yaml": configuration }, "--config", "policyd.yaml");
    assert.equal(code, 0);
    assert.match(out, /iifname "br7"/);
    assert.doesNotMatch(out, /iifname "drawbridge0"|flags owner/);
    const bad = await rules("worker-1", { "policyd.yaml": "kind: x" }, "--config", "policyd.yaml");
    assert.deepEqual([bad.code, bad.out], [3, ""]);
    assert.match(bad.err, /^drawbridge: configuration policyd\.yaml: /);
    assert.equal((await rules("worker-1", {}, "--config", "nowhere")).code, 3);
  });

  it("RULES-01: standard input is read once", async () => {
    const files = memoryFiles({ "-": CLUSTER });
    const { code, out, err } = await runCli(["rules", "-f", "-", "--config", "-", "--node", "worker-1"], files);
    assert.deepEqual([code, out], [3, ""]);
    assert.match(err, /-: standard input can be read once; expected a file for the other/);
  });

  it("RULES-01: an unknown node is an error, and a comment says when there are no nodes", async () => {
    const unknown = await rules("worker-3", {});
    assert.deepEqual([unknown.code, unknown.out], [3, ""]);
    assert.match(unknown.err, /"worker-3" is not a Node of these objects; did you mean worker-1 or worker-2\?/);
    const withoutNodes = CLUSTER.split(/^---\n/m)
      .filter((document) => !document.includes("kind: Node"))
      .join("---\n");
    const { out, code } = await rules("worker-3", { "cluster.yaml": withoutNodes });
    assert.equal(code, 0);
    assert.match(out, /^# Node worker-3 is not among the objects/m);
    assert.equal((await runCli(["rules", "-f", "cluster.yaml"], memoryFiles({ "cluster.yaml": CLUSTER }))).code, 2);
  });
});

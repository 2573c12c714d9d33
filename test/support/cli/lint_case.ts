import assert from "node:assert/strict";
import { readManifests } from "../../../cli/input/manifests.ts";
import { lintContext } from "../../../cli/policy/lint/context.ts";
import { lintIn } from "../../../cli/policy/lint/lint.ts";
import { RULES } from "../../../cli/policy/lint/rules.ts";
import { memoryFiles } from "./cli.ts";
import { manifest, networkPolicy } from "./objects.ts";

/** Returns a NetworkPolicy of namespace shop. */
export function policy(name: string, spec: string): string {
  return networkPolicy(`shop/${name}`, spec);
}

/** Returns a running pod of namespace shop whose label app is its name. */
export function pod(name: string, { labels = `app: ${name}`, spec = "", ips = "", namespace = "shop" } = {}): string {
  const addresses =
    ips === ""
      ? ""
      : `, podIPs: [${ips
          .split(" ")
          .map((ip) => `{ ip: "${ip}" }`)
          .join(", ")}]`;
  return manifest(
    "Pod",
    `name: ${name}, namespace: ${namespace}, labels: { ${labels} }`,
    `spec: { ${spec} }, status: { phase: Running${addresses} }`,
  );
}

/** Returns the findings of one rule for YAML, each as `object: message (fix)`. */
export function findingsOf(id: string, yaml: string): readonly string[] {
  const rule = RULES.find((one) => one.id === id);
  assert.ok(rule !== undefined, id);
  const manifests = readManifests(memoryFiles({ "a.yaml": yaml }), ["a.yaml"], false);
  return lintIn(lintContext(manifests), [rule], []).map(
    ({ place, message, fix }) => `${place.object}: ${message} (${fix})`,
  );
}

/** YAML, and the findings of a rule for it. */
export type LintCase = readonly [yaml: string, ...findings: readonly string[]];

/** Asserts the findings of a rule in each case; there must be cases with findings and cases without. */
export function assertFindings(id: string, cases: readonly LintCase[]): void {
  assert.ok(cases.some(([, ...found]) => found.length > 0) && cases.some(([, ...found]) => found.length === 0), id);
  for (const [yaml, ...expected] of cases) {
    assert.deepEqual(findingsOf(id, yaml), expected, yaml);
    // Input that cannot be read would have no findings either.
    if (expected.length === 0) assert.deepEqual(findingsOf("invalid", yaml), [], yaml);
  }
}

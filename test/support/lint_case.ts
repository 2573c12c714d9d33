import assert from "node:assert/strict";
import { readManifests } from "../../cli/input/manifests.ts";
import { lint } from "../../cli/policy/lint/lint.ts";
import { RULES } from "../../cli/policy/lint/rules.ts";
import { memoryFiles } from "./cli.ts";

/** A manifest in a line: the metadata's members and the rest, as YAML's flow style has them. */
export function manifest(kind: string, metadata: string, rest = ""): string {
  return `{ apiVersion: ${API_VERSIONS[kind] ?? "v1"}, kind: ${kind}, metadata: { ${metadata} }${rest === "" ? "" : `, ${rest}`} }\n---\n`;
}

const API_VERSIONS: Readonly<Record<string, string>> = {
  NetworkPolicy: "networking.k8s.io/v1",
  ClusterNetworkPolicy: "policy.networking.k8s.io/v1beta1",
  AdminNetworkPolicy: "policy.networking.k8s.io/v1alpha1",
  BaselineAdminNetworkPolicy: "policy.networking.k8s.io/v1alpha1",
};

/** A NetworkPolicy of namespace shop. */
export function policy(name: string, spec: string): string {
  return manifest("NetworkPolicy", `name: ${name}, namespace: shop`, `spec: { ${spec} }`);
}

/** A running pod of namespace shop with the label app of its name. */
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

/** What one rule says about YAML: `object: message (fix)` for each finding. */
export function findingsOf(id: string, yaml: string): readonly string[] {
  const rule = RULES.find((one) => one.id === id);
  assert.ok(rule !== undefined, id);
  const manifests = readManifests(memoryFiles({ "a.yaml": yaml }), ["a.yaml"], false);
  return lint(manifests, [rule]).map(({ place, message, fix }) => `${place.object}: ${message} (${fix})`);
}

/** YAML, and what a rule says about it. */
export type LintCase = readonly [yaml: string, ...findings: readonly string[]];

/** Demands of a rule what each case says; there have to be cases with findings and cases without. */
export function assertFindings(id: string, cases: readonly LintCase[]): void {
  assert.ok(cases.some(([, ...found]) => found.length > 0) && cases.some(([, ...found]) => found.length === 0), id);
  for (const [yaml, ...expected] of cases) {
    assert.deepEqual(findingsOf(id, yaml), expected, yaml);
    // What cannot be read has no findings either.
    if (expected.length === 0) assert.deepEqual(findingsOf("invalid", yaml), [], yaml);
  }
}

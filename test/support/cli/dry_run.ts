import assert from "node:assert/strict";
import { memoryFiles, runCli } from "./cli.ts";

/** Returns an object of namespace shop, from the rest of its metadata on. */
export const object = (kind: string, name: string, rest: string, version = "v1"): string =>
  `---\napiVersion: ${version}\nkind: ${kind}\nmetadata: { name: ${name}, namespace: shop${rest}\n`;
/** Returns a NetworkPolicy with a spec. */
export const policy = (name: string, spec: string): string =>
  object("NetworkPolicy", name, ` }\nspec: ${spec}`, "networking.k8s.io/v1");
/** Returns a running pod of the Deployment APP on node n1, with the address 10.244.0.N, N the length of its name. */
export const pod = (name: string, app: string, rest = ""): string =>
  object(
    "Pod",
    name,
    `, labels: { app: ${app}, pod-template-hash: h }, ownerReferences: [{ apiVersion: apps/v1, kind: ReplicaSet, name: ${app}-h, controller: true }] }
spec: { nodeName: n1${rest}, containers: [{ name: c, ports: [{ name: http, containerPort: 80 }] }] }
status: { phase: Running, podIPs: [{ ip: 10.244.0.${name.length} }] }`,
  );

interface Result {
  readonly policies: readonly {
    readonly change: string;
    readonly name: string;
    readonly selects: { readonly pods: number };
  }[];
  readonly isolation: readonly {
    readonly direction: string;
    readonly change: string;
    readonly names: readonly string[];
  }[];
  readonly others: readonly { readonly change: string; readonly name: string }[];
  readonly changes: readonly {
    readonly change: string;
    readonly from: readonly string[];
    readonly to: readonly string[];
  }[];
  readonly warnings: readonly { readonly id: string; readonly text: string; readonly line?: number }[];
}

/** Returns the result of `policy dry-run` of a change, as JSON. */
export async function tryOut(against: string, change: string, ...args: readonly string[]): Promise<Result> {
  const files = memoryFiles({ "against.yaml": against, "change.yaml": change });
  const given = ["policy", "dry-run", "-f", "change.yaml", "--against", "against.yaml", "-o", "json", ...args];
  const { out, err } = await runCli(given, files);
  assert.equal(err, "");
  return JSON.parse(out) as Result;
}

import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { parse } from "yaml";
import { type Fields, fieldsOf, listOf, onlyObject, renderedByUs } from "../../support/programs/base_rendering.ts";
import { KUSTOMIZATIONS } from "../../support/programs/kustomize.ts";
import { INSTALL, manifestGrants, manifestObjects, overlayGrants } from "../../support/daemon/manifest_grants.ts";

const BASE = renderedByUs("manifests/base");

function nameOf({ kind, metadata }: Fields): string {
  return `${String(kind)} ${String(fieldsOf(metadata)["name"])}`;
}

function byName(objects: readonly Fields[]): Readonly<Record<string, Fields>> {
  return Object.fromEntries(objects.map((object) => [nameOf(object), object]));
}

/** Returns the value at a JSON pointer; undefined if there is none. */
function at(object: unknown, pointer: string): unknown {
  let value: unknown = object;
  for (const step of pointer.split("/").slice(1)) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, step)) return undefined;
    value = Reflect.get(value, step);
  }
  return value;
}

/** Returns the invalid operations of a JSON patch: changed places must exist, and added ones must not. */
function patchProblems(target: Fields, operations: readonly Fields[]): readonly string[] {
  return operations.flatMap(({ op, path }) => {
    const pointer = String(path);
    const parent = pointer.slice(0, pointer.lastIndexOf("/"));
    const isFit = op === "add" ? at(target, parent) !== undefined : at(target, pointer) !== undefined;
    const isNew = op !== "add" || at(target, pointer) === undefined;
    return isFit && isNew ? [] : [`${String(op)} ${pointer}`];
  });
}

/** Returns the list elements that a merge patch names by merge key and the target does not have. */
function mergeProblems(target: unknown, patch: unknown, where: string): readonly string[] {
  if (Array.isArray(patch)) {
    assert.ok(Array.isArray(target), `${where}: no list in the base`);
    return patch.flatMap((element: Fields) => {
      const key = ["mountPath", "name"].find((one) => element[one] !== undefined) ?? "name";
      const found = target.map(fieldsOf).find((one) => one[key] === element[key]);
      const place = `${where}[${key}=${String(element[key])}]`;
      return found === undefined ? [place] : mergeProblems(found, element, place);
    });
  }
  if (typeof patch !== "object" || patch === null) return [];
  return Object.entries(patch).flatMap(([key, inner]) =>
    typeof inner === "object" ? mergeProblems(at(target, `/${key}`), inner, `${where}.${key}`) : [],
  );
}

/** Returns the problems of a kustomization's patches. */
function problemsOf(directory: string): readonly string[] {
  const objects = BASE.map((object) => ({ ...object, metadata: fieldsOf(object["metadata"]) }));
  return listOf(onlyObject(`${directory}/kustomization.yaml`), "patches").flatMap(({ target, patch }) => {
    const { kind, name } = fieldsOf(target);
    const found = objects.find((one) => nameOf(one) === `${String(kind)} ${String(name)}`);
    if (found === undefined) return [`no ${String(kind)} ${String(name)}`];
    const changes: unknown = parse(String(patch));
    return Array.isArray(changes) ? patchProblems(found, changes.map(fieldsOf)) : mergeProblems(found, changes, "");
  });
}

describe("the kustomizations of manifests/, without kubectl", () => {
  it("DEPLOY-01: install.yaml has exactly the objects of the base, with their content", () => {
    assert.deepEqual(byName(manifestObjects(readFileSync(INSTALL, "utf8"))), byName(BASE));
    assert.equal(BASE.length, 5);
  });

  const components = readdirSync("manifests/components").map((name) => `manifests/components/${name}`);
  for (const directory of [...KUSTOMIZATIONS.slice(1), ...components]) {
    it(`DEPLOY-01: ${directory} names existing files and places of the base`, () => {
      const kustomization = onlyObject(`${directory}/kustomization.yaml`);
      for (const resource of (kustomization["resources"] ?? []) as readonly string[]) {
        assert.ok(existsSync(`${directory}/${resource}`), resource);
      }
      for (const { name, behavior, files } of listOf(kustomization, "configMapGenerator")) {
        assert.deepEqual([name, behavior, files], ["drawbridge", "replace", ["policyd.yaml"]]);
        assert.equal(onlyObject(`${directory}/policyd.yaml`)["kind"], "PolicydConfiguration");
      }
      assert.deepEqual(problemsOf(directory), []);
    });
  }

  it("DEPLOY-03: the permission to patch Nodes' status is only in the overlay with the field that uses it", () => {
    const overlay = "network-unavailable";
    assert.deepEqual(overlayGrants(overlay), { ...manifestGrants(), "nodes/status": ["patch"] });
    assert.equal(onlyObject(`manifests/overlays/${overlay}/policyd.yaml`)["clearNetworkUnavailable"], true);
    for (const directory of KUSTOMIZATIONS.slice(1).filter((one) => !one.endsWith(`/${overlay}`))) {
      assert.deepEqual(overlayGrants(directory.replace("manifests/overlays/", "")), manifestGrants(), directory);
      assert.equal(onlyObject(`${directory}/policyd.yaml`)["clearNetworkUnavailable"], undefined, directory);
    }
  });

  it("DEPLOY-03: own-node-status denies patches by the daemon's account beyond the permission of network-unavailable", () => {
    const text = readFileSync("manifests/components/own-node-status/admission_policy.yaml", "utf8");
    const [policy = {}, binding = {}, ...others] = manifestObjects(text);
    assert.deepEqual(others, []);
    const { matchConstraints, matchConditions, failurePolicy } = fieldsOf(policy["spec"]);
    const [rule, ...rules] = listOf(fieldsOf(matchConstraints), "resourceRules");
    assert.deepEqual([rule?.["resources"], rule?.["operations"], rules], [["nodes/status"], ["UPDATE"], []]);
    const [account] = BASE.filter(({ kind }) => kind === "ServiceAccount").map(({ metadata }) => fieldsOf(metadata));
    const user = `system:serviceaccount:${String(account?.["namespace"])}:${String(account?.["name"])}`;
    assert.deepEqual(matchConditions, [{ name: "drawbridge", expression: `request.userInfo.username == '${user}'` }]);
    assert.equal(failurePolicy, "Fail");
    const { policyName, validationActions } = fieldsOf(binding["spec"]);
    assert.deepEqual([policyName, validationActions], [fieldsOf(policy["metadata"])["name"], ["Deny"]]);
  });
});

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { manifestObjects } from "../daemon/manifest_grants.ts";

/** A mapping of YAML. */
export type Fields = Readonly<Record<string, unknown>>;

const CLUSTER_WIDE = new Set(["ClusterRole", "ClusterRoleBinding"]);
/** The fields of a kustomization that {@link renderedByUs} evaluates; any other field would make its result wrong. */
const KUSTOMIZATION_FIELDS = ["apiVersion", "configMapGenerator", "images", "kind", "labels", "namespace", "resources"];

/**
 * Renders a kustomization without patches as kustomize does, with the features that `manifests/base` uses: namespace,
 * labels, the ConfigMap named by its content, images. It serves machines without kubectl.
 *
 * @throws AssertionError for a kustomization that uses more
 */
export function renderedByUs(directory: string): readonly Fields[] {
  const kustomization = onlyObject(`${directory}/kustomization.yaml`);
  assert.deepEqual(
    Object.keys(kustomization).sort(),
    KUSTOMIZATION_FIELDS,
    `${directory} uses a field that renderedByUs() does not support`,
  );
  const namespace = String(kustomization["namespace"]);
  const [label] = listOf(kustomization, "labels");
  const labels = fieldsOf(label?.["pairs"]);
  const [generator] = listOf(kustomization, "configMapGenerator");
  const configMap = configMapOf(directory, fieldsOf(generator));
  const base = String(fieldsOf(generator)["name"]);
  const [image = assert.fail(`${directory} sets no image`)] = listOf(kustomization, "images");

  const renamed = (value: unknown): unknown => {
    if (Array.isArray(value)) return value.map(renamed);
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, inner]) => {
        if (key === "configMap" && fieldsOf(inner)["name"] === base) {
          return [key, { ...fieldsOf(inner), name: fieldsOf(configMap["metadata"])["name"] }];
        }
        if (key === "image" && inner === image["name"])
          return [key, `${String(image["newName"])}:${String(image["newTag"])}`];
        if (key === "subjects") return [key, listOf({ subjects: inner }, key).map((one) => ({ ...one, namespace }))];
        if (key === "template") {
          const metadata = fieldsOf(fieldsOf(inner)["metadata"]);
          const labelled = { ...metadata, labels: { ...fieldsOf(metadata["labels"]), ...labels } };
          return [key, { ...fieldsOf(renamed(inner)), metadata: labelled }];
        }
        return [key, renamed(inner)];
      }),
    );
  };
  const files = kustomization["resources"];
  assert.ok(Array.isArray(files));
  const objects = files.flatMap((file) => manifestObjects(readFileSync(`${directory}/${file}`, "utf8")));
  return [...objects, configMap].map((object) => {
    const metadata = fieldsOf(object["metadata"]);
    const place = CLUSTER_WIDE.has(String(object["kind"])) ? {} : { namespace };
    return {
      ...fieldsOf(renamed(object)),
      metadata: { ...metadata, labels: { ...fieldsOf(metadata["labels"]), ...labels }, ...place },
    };
  });
}

/** Returns the only object of a file. */
export function onlyObject(path: string): Fields {
  const [object, ...others] = manifestObjects(readFileSync(path, "utf8"));
  assert.ok(object !== undefined && others.length === 0, `${path}: expected one object`);
  return object;
}

/** Returns the mappings of a list; none when the field is missing. */
export function listOf(object: Fields, field: string): readonly Fields[] {
  const list = object[field] ?? [];
  assert.ok(Array.isArray(list), `${field}: expected a list`);
  return list.map(fieldsOf);
}

/** Returns a value as a mapping; an empty one for undefined. */
export function fieldsOf(value: unknown): Fields {
  assert.ok(value === undefined || (typeof value === "object" && value !== null && !Array.isArray(value)));
  return { ...value };
}

function configMapOf(directory: string, generator: Fields): Fields {
  const { name, files } = generator;
  assert.ok(Array.isArray(files));
  const data = Object.fromEntries(files.map((file) => [String(file), readFileSync(`${directory}/${file}`, "utf8")]));
  return { apiVersion: "v1", kind: "ConfigMap", metadata: { name: `${String(name)}-${contentHash(data)}` }, data };
}

/**
 * Returns the suffix of a generated ConfigMap's name (kustomize 5, api/hasher/hasher.go): the hash of Go's JSON with an
 * empty name, in letters that form no words.
 */
function contentHash(data: Readonly<Record<string, string>>): string {
  const sorted = Object.fromEntries(Object.entries(data).sort(([a], [b]) => (a < b ? -1 : 1)));
  const json = JSON.stringify({ data: sorted, kind: "ConfigMap", name: "" }).replace(
    /[<>&\u2028\u2029]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
  const letters: Readonly<Record<string, string>> = { 0: "g", 1: "h", 3: "k", a: "m", e: "t" };
  const digest = createHash("sha256").update(json).digest("hex").slice(0, 10);
  return digest.replace(/[013ae]/g, (digit) => letters[digit] ?? digit);
}

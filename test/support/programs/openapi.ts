import assert from "node:assert/strict";
import { readFileSync } from "node:fs";

/** The parts of the published OpenAPI document that test/fixtures/openapi/extract.ts extracted. */
interface OpenApi {
  /** The kinds, by "apiVersion kind". */
  readonly kinds: Readonly<Record<string, string>>;
  readonly definitions: Readonly<Record<string, Schema>>;
}

interface Schema {
  readonly $ref?: string;
  readonly type?: "string" | "integer" | "boolean" | "object" | "array";
  readonly format?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly additionalProperties?: Schema;
  readonly items?: Schema;
  readonly required?: readonly string[];
}

const OPEN_API = JSON.parse(readFileSync("test/fixtures/openapi/kubernetes.json", "utf8")) as OpenApi;
const REFERENCE = "#/definitions/";

/**
 * Returns the errors of an object that an API server with strict validation would report: one line for each unknown
 * field, missing field and wrong type; none for a valid object.
 */
export function schemaProblems(object: Readonly<Record<string, unknown>>): readonly string[] {
  const { apiVersion, kind } = object;
  const name = OPEN_API.kinds[`${String(apiVersion)} ${String(kind)}`];
  if (name === undefined) return [`${String(apiVersion)} ${String(kind)}: no schema; add it to extract.ts`];
  return problems(object, { $ref: REFERENCE + name }, String(kind));
}

function problems(value: unknown, schema: Schema, path: string): readonly string[] {
  if (schema.$ref !== undefined) {
    const definition = OPEN_API.definitions[schema.$ref.slice(REFERENCE.length)];
    assert.ok(definition !== undefined, schema.$ref);
    return problems(value, definition, path);
  }
  if (!hasType(value, schema)) {
    return [`${path}: ${JSON.stringify(value)}; expected ${schema.format ?? schema.type}`];
  }
  if (Array.isArray(value)) {
    return value.flatMap((item, index) => problems(item, schema.items ?? {}, `${path}[${index}]`));
  }
  return isObject(value) ? memberProblems(value, schema, path) : [];
}

function memberProblems(value: Readonly<Record<string, unknown>>, schema: Schema, path: string): readonly string[] {
  const missing = (schema.required ?? []).filter((key) => !(key in value));
  // A schema that names no members, such as Quantity's, is a leaf, where hasType has refused objects.
  const members = Object.entries(value).flatMap(([key, member]) => {
    const known = schema.properties?.[key] ?? schema.additionalProperties;
    return known === undefined ? [`${path}.${key}: unknown field`] : problems(member, known, `${path}.${key}`);
  });
  return [...missing.map((key) => `${path}.${key}: missing`), ...members];
}

function hasType(value: unknown, { type, format }: Schema): boolean {
  if (format === "int-or-string" && Number.isInteger(value)) return true;
  switch (type) {
    case "string":
    case "boolean":
      return typeof value === type;
    case "integer":
      return Number.isInteger(value);
    case "array":
      return Array.isArray(value);
    default:
      return isObject(value);
  }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

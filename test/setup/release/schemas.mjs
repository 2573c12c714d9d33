/**
 * The parts of a schema of valibot that have a counterpart in JSON Schema.
 *
 * @typedef {object} Schema
 * @property {string} type
 * @property {unknown} [message] the expectation
 * @property {readonly Schema[]} [pipe] a schema, and validations of its value
 * @property {Schema} [wrapped]
 * @property {unknown} [default]
 * @property {Readonly<Record<string, Schema>>} [entries]
 * @property {Schema} [item]
 * @property {readonly unknown[]} [options]
 * @property {unknown} [literal]
 * @property {unknown} [requirement]
 */

/** @typedef {Readonly<Record<string, unknown>>} JsonSchema */

const DIALECT = "https://json-schema.org/draft/2020-12/schema";

/**
 * Returns the JSON Schema of a file for Drawbridge, for editors: what only a program can check is in the descriptions.
 *
 * @param {{ apiVersion: string, kind: string }} head
 * @param {Readonly<Record<string, unknown>>} entries the schemas of the other fields
 * @param {readonly string[]} required of them
 * @returns {JsonSchema}
 */
export function fileSchema(head, entries, required) {
  const fields = Object.entries(head).map(([name, value]) => [name, { const: value }]);
  const others = Object.entries(entries).map(([name, schema]) => [name, jsonSchema(/** @type {Schema} */ (schema))]);
  return {
    $schema: DIALECT,
    title: head.kind,
    type: "object",
    properties: /** @type {JsonSchema} */ (Object.fromEntries([...fields, ...others])),
    required: [...Object.keys(head), ...required],
    additionalProperties: false,
  };
}

/**
 * Returns the JSON Schema of what a schema of valibot takes.
 *
 * @param {Schema} schema
 * @returns {JsonSchema}
 */
export function jsonSchema(schema) {
  const [base, ...validations] = schema.pipe ?? [];
  if (base !== undefined) {
    return validations.reduce((whole, one) => ({ ...whole, ...validation(one) }), jsonSchema(base));
  }
  if (schema.wrapped !== undefined) {
    const value = schema.default;
    return { ...jsonSchema(schema.wrapped), ...(value === undefined ? {} : { default: value }) };
  }
  const description = typeof schema.message === "string" ? { description: `expected ${schema.message}` } : {};
  return { ...description, ...shape(schema) };
}

/**
 * @param {Schema} schema
 * @returns {JsonSchema}
 */
function shape({ type, entries = {}, item, options = [], literal }) {
  switch (type) {
    case "string":
    case "number":
    case "boolean":
      return { type };
    case "picklist":
      return { enum: options };
    case "literal":
      return { const: literal };
    case "array":
      return { type, ...(item === undefined ? {} : { items: jsonSchema(item) }) };
    case "union":
      return { anyOf: options.map((option) => jsonSchema(/** @type {Schema} */ (option))) };
    case "object":
    case "strict_object":
    case "loose_object": {
      const fields = Object.entries(entries);
      return {
        type: "object",
        properties: /** @type {JsonSchema} */ (
          Object.fromEntries(fields.map(([name, field]) => [name, jsonSchema(field)]))
        ),
        required: fields.filter(([, field]) => field.type !== "optional").map(([name]) => name),
        additionalProperties: type === "loose_object",
      };
    }
    case "unknown":
      return {};
    default:
      throw new Error(`a schema of the type ${type} has no counterpart here yet`);
  }
}

/**
 * @param {Schema} validation
 * @returns {JsonSchema}
 */
function validation({ type, requirement }) {
  switch (type) {
    case "integer":
      return { type: "integer" };
    case "min_value":
      return { minimum: requirement };
    case "max_value":
      return { maximum: requirement };
    case "regex":
      return { pattern: requirement instanceof RegExp ? requirement.source : String(requirement) };
    default:
      // Checks by a program, and what becomes of the value.
      return {};
  }
}

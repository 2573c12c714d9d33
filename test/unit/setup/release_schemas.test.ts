import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import * as v from "valibot";
import { parse } from "yaml";
import { entrySchema } from "../../../cli/policy/test/expectation.ts";
import { entries } from "../../../policyd/configuration/schema.ts";
import { fileSchema, jsonSchema } from "../../setup/release/schemas.mjs";

const HEAD = { apiVersion: "drawbridge.dev/v1alpha1", kind: "PolicydConfiguration" };

describe("setup: the JSON schemas of a release", () => {
  it("RELEASE-07: the schema of the configuration has each field, with its type, bounds, default and expectation", () => {
    const schema = fileSchema(HEAD, entries, []);
    const properties = schema["properties"] as Readonly<Record<string, unknown>>;
    assert.deepEqual(Object.keys(properties), ["apiVersion", "kind", ...Object.keys(entries)]);
    assert.deepEqual(properties["kind"], { const: "PolicydConfiguration" });
    const count = "expected a whole number from 0 to 16777216";
    assert.deepEqual(properties["conntrackMin"], {
      description: count,
      type: "integer",
      minimum: 0,
      maximum: 16_777_216,
      default: 131_072,
    });
    assert.deepEqual(properties["encapsulation"], {
      description: "expected one of auto, always, never",
      enum: ["auto", "always", "never"],
      default: "auto",
    });
    assert.deepEqual(properties["podCIDRs"], {
      description: "expected a list of prefixes",
      type: "array",
      items: { description: 'expected a prefix without host bits such as "10.244.1.0/24"', type: "string" },
      default: [],
    });
    for (const name of readdirSync("manifests/overlays")) {
      const file = parse(readFileSync(`manifests/overlays/${name}/policyd.yaml`, "utf8")) as object;
      for (const field of Object.keys(file)) assert.ok(field in properties, `${name}: ${field}`);
    }
  });

  it("RELEASE-07: the schema of expectations takes their fields only, and a schema without a counterpart is an error", () => {
    const { items } = jsonSchema(v.array(entrySchema)) as { items: Readonly<Record<string, unknown>> };
    assert.deepEqual(items["required"], ["from", "to", "expect", "reason"]);
    assert.deepEqual(items["additionalProperties"], false);
    assert.deepEqual(jsonSchema(v.union([v.number(), v.pipe(v.string(), v.regex(/^a$/))])), {
      anyOf: [{ type: "number" }, { type: "string", pattern: "^a$" }],
    });
    assert.throws(() => jsonSchema(v.bigint()), /type bigint has no counterpart/);
  });
});

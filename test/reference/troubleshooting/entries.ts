import { readFileSync } from "node:fs";
import * as v from "valibot";
import { parse } from "yaml";

const ENTRIES = "test/reference/troubleshooting/troubleshooting.yaml";

const sentences = v.pipe(v.string(), v.minLength(10));
const explanation = v.strictObject({ meaning: sentences, way: sentences });

const schema = v.strictObject({
  log: v.record(v.string(), explanation),
  status: v.record(
    v.string(),
    v.strictObject({
      ...explanation.entries,
      /** The source of a text that `statusProblems` does not find. */
      file: v.optional(v.string()),
    }),
  ),
  doctor: v.record(
    v.string(),
    v.strictObject({
      /** The words of the finding whose words the check's source does not have. */
      what: v.optional(v.string()),
      /** The way out of the finding whose way out the check's source does not have. */
      way: v.optional(v.string()),
      note: v.optional(v.string()),
    }),
  ),
  plugin: v.record(v.string(), explanation),
});

export type Explanation = v.InferOutput<typeof explanation>;

/** The texts that the sources do not have, by the words as they are printed. */
export type Entries = v.InferOutput<typeof schema>;

/** Returns the texts beside this file. @throws ValiError where they do not have the expected form */
export function readEntries(): Entries {
  return v.parse(schema, parse(readFileSync(ENTRIES, "utf8")));
}

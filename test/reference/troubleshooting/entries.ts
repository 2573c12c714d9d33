import { readFileSync } from "node:fs";
import * as v from "valibot";
import { parse } from "yaml";

const ENTRIES = "test/reference/troubleshooting/troubleshooting.yaml";

const sentences = v.pipe(v.string(), v.minLength(10));
const explanation = v.strictObject({ meaning: sentences, way: sentences });
const messages = {
  /** Messages that have one meaning and one way out. Those that explain themselves are not listed in the document. */
  alike: v.array(
    v.strictObject({ ...explanation.entries, title: v.string(), words: v.array(v.string()), listed: v.boolean() }),
  ),
  single: v.record(v.string(), explanation),
};

const schema = v.strictObject({
  log: v.strictObject(messages),
  status: v.strictObject({
    ...messages,
    /** The sources of texts that `statusProblems` does not find. */
    files: v.record(v.string(), v.string()),
  }),
  /** Errors of the plugin; the message itself says most ways out. */
  plugin: v.record(v.string(), v.strictObject({ meaning: sentences, way: v.optional(sentences) })),
});

/** The texts that the sources do not have, by the words as they are printed. */
export type Entries = v.InferOutput<typeof schema>;

/** The explained messages of the log, or problems of the status. */
export type Messages = Pick<Entries["log"], "alike" | "single">;

/** Returns the texts beside this file. @throws ValiError where they do not have the expected form */
export function readEntries(): Entries {
  return v.parse(schema, parse(readFileSync(ENTRIES, "utf8")));
}

/** Returns the words of all explained messages, those that are explained twice also twice. */
export function wordsOf({ alike, single }: Messages): readonly string[] {
  return [...alike.flatMap(({ words }) => words), ...Object.keys(single)];
}

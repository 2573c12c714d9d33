import * as v from "valibot";
import { DrawbridgeError } from "../../kernel/error.ts";
import { issueText } from "./issue_text.ts";

/**
 * Returns the value of a line of JSON, as a schema describes it.
 *
 * @param what what a line holds, for the message: "flow"
 * @throws DrawbridgeError ERR_INPUT with the field and the expected value
 */
export function parseJsonLine<S extends v.GenericSchema>(line: string, schema: S, what: string): v.InferOutput<S> {
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch {
    throw new DrawbridgeError("ERR_INPUT", `expected a ${what} as a JSON object on one line`);
  }
  const result = v.safeParse(schema, value);
  if (result.success) return result.output;
  throw new DrawbridgeError("ERR_INPUT", issueText(result.issues[0], what));
}

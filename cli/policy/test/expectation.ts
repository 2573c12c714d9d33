import { counted } from "../../output/text.ts";
import * as v from "valibot";
import { Buffer } from "node:buffer";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { printable } from "../../../objects/printable.ts";
import { nearestHint } from "../../../objects/nearest_names.ts";
import { END_FORMS, parseEndName, unjudgedEnd } from "../../cluster/end_name.ts";
import type { Io } from "../../io.ts";
import { readManifestObjects } from "../../input/manifest_objects.ts";
import { locationText } from "../../input/place.ts";
import { issueText } from "../../../policyd/lib/issue_text.ts";
import { type AskedPort, askedPort } from "../../input/port_text.ts";

/** One connection, and whether it should be allowed. */
export interface Expectation {
  readonly file: string;
  readonly line: number;
  /** The written name, or else the ends and the port. */
  readonly name: string;
  readonly from: string;
  readonly to: string;
  /** Undefined only if nothing at all should be allowed. */
  readonly port: AskedPort | undefined;
  readonly expect: "allowed" | "denied";
  readonly reason: string;
}

const MOST_BYTES = 1024 * 1024;
const MOST_EXPECTATIONS = 10_000;
const LONGEST = 500;
const MOST_PROBLEMS = 20;
const PORT_FORMS = "such as 80, 53/UDP, icmp or a name";

const words = v.pipe(v.string(), v.trim(), v.minLength(1), v.maxLength(LONGEST));

/** One expectation of a file. */
export const entrySchema = v.strictObject({
  name: v.optional(words),
  from: words,
  to: words,
  port: v.optional(v.union([v.number(), words], PORT_FORMS)),
  expect: v.picklist(["allowed", "denied"]),
  reason: words,
});

const fileSchema = v.strictObject({
  apiVersion: v.literal("drawbridge.dev/v1alpha1"),
  kind: v.literal("PolicyTest"),
  tests: v.pipe(v.array(v.unknown()), v.minLength(1)),
});

/**
 * Reads the expectations of some files.
 *
 * @throws DrawbridgeError ERR_INPUT after every mistake is reported with file and line: a part of them tests nothing
 */
export function readExpectations(io: Io, paths: readonly string[]): readonly Expectation[] {
  const problems: string[] = [];
  const found = paths.flatMap((file) => readFile(io, file, problems));
  if (problems.length > 0) {
    for (const one of problems.slice(0, MOST_PROBLEMS)) io.err.write(`${printable(one)}\n`);
    throw new DrawbridgeError("ERR_INPUT", `${counted(problems.length, "problem")} in the expectations; expected none`);
  }
  if (found.length > MOST_EXPECTATIONS) {
    throw new DrawbridgeError("ERR_INPUT", `${found.length} expectations; expected at most ${MOST_EXPECTATIONS}`);
  }
  return found;
}

function readFile(io: Io, file: string, problems: string[]): readonly Expectation[] {
  if (file !== "-" && io.files.typeOf(file) !== "file") {
    throw new DrawbridgeError("ERR_INPUT", `${file}: expected a file with expectations`);
  }
  try {
    const objects = readManifestObjects(bounded(file, io.files.read(file)), "yaml", ({ value, lineOf }) => {
      const head = v.safeParse(fileSchema, value);
      if (!head.success) {
        problems.push(
          `${locationText(file, lineOf([]))}: ${unknownFieldIn(value, fileSchema.entries) ?? issueText(head.issues[0], "the object")}; expected a PolicyTest of drawbridge.dev/v1alpha1`,
        );
        return [];
      }
      return head.output.tests.flatMap((entry, i) => {
        const line = lineOf(["tests", i]);
        const read = expectationOf(entry);
        if (typeof read !== "string") return [{ ...read, file, line }];
        problems.push(`${locationText(file, line)}: tests[${i}]: ${read}`);
        return [];
      });
    });
    if (objects.length === 0) problems.push(`${file}: no expectations; expected a PolicyTest`);
    return objects.flat();
  } catch (error) {
    if (!(error instanceof DrawbridgeError) || error.code === "ERR_INPUT") throw error;
    problems.push(`${file}: ${error.message}`);
    return [];
  }
}

function* bounded(file: string, chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  let size = 0;
  for (const chunk of chunks) {
    size += Buffer.byteLength(chunk);
    if (size > MOST_BYTES)
      throw new DrawbridgeError("ERR_INPUT", `${file}: expected at most ${MOST_BYTES} bytes of expectations`);
    yield chunk;
  }
}

/** Reads an expectation. @returns it, or what is wrong with it */
function expectationOf(entry: unknown): Omit<Expectation, "file" | "line"> | string {
  const parsed = v.safeParse(entrySchema, entry);
  if (!parsed.success) return unknownFieldIn(entry, entrySchema.entries) ?? issueText(parsed.issues[0], "expectation");
  const { from, to, port: text, expect, reason } = parsed.output;
  const source = parseEndName(from);
  if (source === undefined || source.type === "service")
    return `from: ${JSON.stringify(from)}; expected ${END_FORMS}, and no Service`;
  const destination = parseEndName(to);
  if (destination === undefined) return `to: ${JSON.stringify(to)}; expected ${END_FORMS}`;
  const unjudged = unjudgedEnd(source) ?? unjudgedEnd(destination);
  if (unjudged !== undefined) return unjudged;
  if (text === undefined && expect === "allowed")
    return "port: expected one, since everything is rarely meant to be allowed";
  const port = text === undefined ? undefined : askedPort(`${text}`);
  if (text !== undefined && port === undefined) return `port: ${JSON.stringify(text)}; expected ${PORT_FORMS}`;
  const name = parsed.output.name ?? `${from} to ${to}${text === undefined ? "" : ` ${text}`}`;
  return { name, from, to, port, expect, reason };
}

/** Returns the first field that is not known, with the one that is probably meant; undefined where all are known. */
function unknownFieldIn(value: unknown, known: Readonly<Record<string, unknown>>): string | undefined {
  const name =
    typeof value === "object" ? Object.keys(value ?? {}).find((key) => !Object.hasOwn(known, key)) : undefined;
  if (name === undefined) return undefined;
  const names = Object.keys(known);
  return `unknown field ${name}; ${nearestHint(name, names, `expected ${names.join(", ")}`)}`;
}

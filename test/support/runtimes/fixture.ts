import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import type { RecordedCall } from "./recorder.ts";

const DIRECTORY = fileURLToPath(new URL("../../fixtures/runtimes", import.meta.url));

const callSchema = v.strictObject({
  plugin: v.string(),
  environment: v.record(v.string(), v.string()),
  /** The JSON value on standard input; its keys are in the runtime's order. */
  stdin: v.unknown(),
  exitCode: v.number(),
  /** The JSON value on standard output; null when there was none. */
  answer: v.unknown(),
});
const fixtureSchema = v.strictObject({ client: v.string(), calls: v.array(callSchema) });

/** A call without the paths and identifiers of the machine that it was recorded on. */
export type FixtureCall = v.InferOutput<typeof callSchema>;

/** The calls of one client in the order in which it made them. */
export type Fixture = v.InferOutput<typeof fixtureSchema>;

/** Returns the names of all fixtures. */
export function fixtureNames(): readonly string[] {
  if (!existsSync(DIRECTORY)) return [];
  return readdirSync(DIRECTORY)
    .map((name) => name.replace(/\.json$/, ""))
    .sort();
}

/** Reads a fixture. @throws ValiError for a file that is not a fixture */
export function readFixture(name: string): Fixture {
  return v.parse(fixtureSchema, JSON.parse(readFileSync(`${DIRECTORY}/${name}.json`, "utf8")));
}

/**
 * Compares the calls of a client with its fixture, or writes the fixture when DRAWBRIDGE_RECORD is 1.
 *
 * It compares values of results by their shape, and each plugin's calls by themselves: containerd calls `loopback` and
 * our plugin at the same time, and writes the pairs of CNI_ARGS in any order.
 *
 * @param scratch the directory of the lab, which occurs in paths
 * @throws AssertionError when the client's calls or their answers differ
 */
export function holdToFixture(name: string, client: string, calls: readonly RecordedCall[], scratch: string): void {
  const fixture: Fixture = { client, calls: withoutMachine(calls, scratch) };
  if (process.env["DRAWBRIDGE_RECORD"] === "1") {
    mkdirSync(DIRECTORY, { recursive: true });
    writeFileSync(`${DIRECTORY}/${name}.json`, `${JSON.stringify(fixture, undefined, 2)}\n`);
    return;
  }
  assert.ok(existsSync(`${DIRECTORY}/${name}.json`), `${name}: no fixture yet: npm run test:runtimes -- --record`);
  const recorded = readFixture(name);
  for (const plugin of ["drawbridge", "loopback"]) {
    const of = ({ calls: all }: Fixture): readonly unknown[] =>
      all.filter((call) => call.plugin === plugin).map(comparable);
    assert.deepEqual(of(fixture), of(recorded), `${name}: the calls of ${plugin} have changed`);
  }
}

/**
 * Returns calls with placeholders: `\${scratch}` and `\${netns N}`, and an identifier of its own for each container.
 */
function withoutMachine(calls: readonly RecordedCall[], scratch: string): FixtureCall[] {
  const names = new Map<string, string>();
  const distinct = (key: string): readonly string[] => [
    ...new Set(calls.flatMap(({ environment }) => environment[key] || [])),
  ];
  // libcni sets "dummy" for VERSION.
  const paths = distinct("CNI_NETNS").filter((path) => path.startsWith("/"));
  for (const [i, path] of paths.entries()) names.set(path, `\${netns ${i}}`);
  for (const [i, id] of distinct("CNI_CONTAINERID").entries()) names.set(id, sha256(`container ${i}`));
  names.set(scratch, "${scratch}");
  const replace = (text: string): string => {
    for (const [from, to] of names) text = text.replaceAll(from, to);
    return text;
  };
  return calls.map(({ plugin, environment, stdin, exitCode, stdout }) => ({
    plugin,
    environment: Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, replace(value)])),
    stdin: JSON.parse(replace(stdin)) as unknown,
    exitCode,
    answer: stdout === "" ? null : (JSON.parse(replace(stdout)) as unknown),
  }));
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

/** Returns a call in which results are reduced to their shape. */
function comparable({ environment, stdin, answer, ...rest }: FixtureCall): unknown {
  const pairs = environment["CNI_ARGS"]?.split(";").sort();
  const request = isObject(stdin) ? { ...stdin, prevResult: shapeOf(stdin["prevResult"]) } : stdin;
  return { ...rest, environment: { ...environment, CNI_ARGS: pairs }, stdin: request, answer: shapeOf(answer) };
}

/**
 * Returns the value with each scalar replaced by its type; `cniVersion` stays, since the client and the plugin agreed
 * on it.
 */
export function shapeOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shapeOf);
  if (!isObject(value)) return value === null ? null : typeof value;
  const entries = Object.entries(value).map(([key, member]) => [key, key === "cniVersion" ? member : shapeOf(member)]);
  return Object.fromEntries(entries);
}

export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

import * as v from "valibot";
import { DrawbridgeError } from "../../kernel/error.ts";
import { readObjects } from "../../objects/yaml/documents.ts";
import { API_VERSION, KIND, configurationSchema, entries, membersOf } from "./schema.ts";
import { isObject } from "../../objects/gate/reader.ts";
import { nearestHint } from "../../objects/nearest_names.ts";

/** The daemon's configuration. Periods are in milliseconds. */
export type Configuration = Readonly<v.InferOutput<typeof configurationSchema>>;

/** A field's value as given, and its place: "nodeName" in the file, "--node-name" on the command line. */
export interface Written {
  readonly value: unknown;
  readonly where: string;
}

const LONGEST_SHOWN = 80;

/**
 * Returns the configuration: values of the command line, else of the file, else the defaults.
 *
 * @param file text of the configuration file and its path; undefined without one
 * @param flags by the field's name in the file
 * @throws DrawbridgeError ERR_CONFIGURATION with all problems at once, each with field, value and expectation
 */
export function readConfiguration(
  file: { readonly path: string; readonly text: string } | undefined,
  flags: Readonly<Record<string, Written>>,
): Configuration {
  const problems: string[] = [];
  const object = file === undefined ? {} : readFile(file.path, file.text, problems);
  const written = new Map<string, Written>(Object.entries(object).map(([key, value]) => [key, { value, where: key }]));
  for (const [key, flag] of Object.entries(flags)) written.set(key, flag);
  // Absent fields are named too, so that errors state each field's own expectation.
  const input = Object.fromEntries(Object.keys(entries).map((key) => [key, written.get(key)?.value ?? undefined]));
  const result = v.safeParse(configurationSchema, input);
  if (!result.success) problems.push(...result.issues.map((issue) => problemOf(issue, written)));
  if (!result.success || problems.length > 0) throw refusal(file?.path, problems);
  return Object.freeze(result.output);
}

/** Returns the members of the file's object, after checks of `apiVersion`, `kind` and the field names. */
function readFile(path: string, text: string, problems: string[]): Readonly<Record<string, unknown>> {
  const object = singleObject(path, text);
  const { apiVersion, kind, ...fields } = object;
  if (apiVersion !== API_VERSION) problems.push(problem("apiVersion", apiVersion, API_VERSION));
  if (kind !== KIND) problems.push(problem("kind", kind, KIND));
  refuseUnknown("", fields, Object.keys(entries), problems);
  for (const [field, value] of Object.entries(fields)) {
    const members = membersOf(field);
    if (members !== undefined && isObject(value)) refuseUnknown(`${field}.`, value, members, problems);
  }
  return fields;
}

function singleObject(path: string, text: string): Readonly<Record<string, unknown>> {
  let objects: readonly unknown[];
  try {
    objects = [...readObjects(text, path)];
  } catch (error) {
    if (error instanceof DrawbridgeError) throw refusal(path, [error.message]);
    throw error;
  }
  const [object] = objects;
  if (objects.length === 1 && isObject(object)) return object;
  throw refusal(path, [`${objects.length} objects; expected one of kind ${KIND}`]);
}

function refuseUnknown(prefix: string, object: object, known: readonly string[], problems: string[]): void {
  for (const key of Object.keys(object)) {
    if (known.includes(key)) continue;
    const names = known.map((name) => `${prefix}${name}`);
    const way = nearestHint(`${prefix}${key}`, names, `one of ${known.join(", ")}`);
    problems.push(`${prefix}${key.slice(0, LONGEST_SHOWN)}: unknown field; ${way}`);
  }
}

function problemOf(issue: v.BaseIssue<unknown>, written: ReadonlyMap<string, Written>): string {
  const [first, ...rest] = issue.path ?? [];
  const field = typeof first?.key === "string" ? first.key : "";
  const below = rest.map(({ key }) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`)).join("");
  const { value, where } = written.get(field) ?? { value: undefined, where: field };
  return problem(`${where}${below}`, rest.length === 0 ? value : issue.input, issue.message);
}

function problem(field: string, value: unknown, expectation: string): string {
  const shown = isObject(value) ? "an object" : Array.isArray(value) ? "a list" : (JSON.stringify(value) ?? "missing");
  return `${field}: ${shown.slice(0, LONGEST_SHOWN)}; expected ${expectation}`;
}

function refusal(path: string | undefined, problems: readonly string[]): DrawbridgeError {
  const place = path === undefined ? "configuration" : `configuration ${path}`;
  return new DrawbridgeError("ERR_CONFIGURATION", `${place}: ${problems.join("; also ")}`);
}

import { LAYERS } from "../support/lint/boundaries.ts";
import * as v from "valibot";
import { parse } from "yaml";

/** One deliberate breakage of our own code, and the test that must notice it. */
export interface Mutant {
  /** A unique name of lower-case letters, digits and dashes. */
  readonly id: string;
  /** The property that is broken, in words. */
  readonly breaks: string;
  /** The broken file, relative to the project. */
  readonly file: string;
  /** A text that occurs exactly once in the file. */
  readonly line: string;
  readonly replacement: string;
  /** The test's file, relative to the project. */
  readonly test: string;
  /** A part of the test's full title that no other test of the file has. */
  readonly title: string;
}

/** test/mutants.yaml or an entry of it is invalid. */
export class MutantListError extends Error {
  override readonly name = "MutantListError";
}

const text = v.pipe(v.string(), v.nonEmpty());

const mutantSchema = v.strictObject({
  id: v.pipe(v.string(), v.regex(/^[a-z0-9]+(-[a-z0-9]+)*$/)),
  breaks: text,
  file: v.pipe(
    v.string(),
    v.regex(new RegExp(`^((${Object.keys(LAYERS).join("|")})/[a-z0-9_/]+\\.ts|manifests/[a-z_/]+\\.(yaml|json))$`)),
  ),
  line: text,
  replacement: v.string(),
  test: v.pipe(v.string(), v.regex(/^test\/[a-z0-9_/]+\.test\.ts$/)),
  title: text,
});

/**
 * Reads the list of mutants.
 *
 * @param yaml the text of test/mutants.yaml
 * @throws MutantListError naming the entry, the field, the value and the expectation
 */
export function parseMutants(yaml: string): readonly Mutant[] {
  let list: unknown;
  try {
    list = parse(yaml);
  } catch (error) {
    throw new MutantListError(`not YAML: ${error instanceof Error ? error.message : String(error)}`);
  }
  if (!Array.isArray(list) || list.length === 0) throw new MutantListError("expected a list of at least one mutant");
  const mutants = list.map(parseMutant);
  for (const [index, { id }] of mutants.entries()) {
    const earlier = mutants.findIndex((mutant) => mutant.id === id);
    if (earlier !== index)
      throw new MutantListError(
        `entry ${index + 1}: id: "${id}" is that of entry ${earlier + 1} too; expected another`,
      );
  }
  return mutants;
}

function parseMutant(entry: unknown, index: number): Mutant {
  const parsed = v.safeParse(mutantSchema, entry, { abortEarly: true });
  if (parsed.success) {
    if (parsed.output.line !== parsed.output.replacement) return Object.freeze(parsed.output);
    throw new MutantListError(
      `entry ${index + 1} (${parsed.output.id}): replacement: equals line; expected another text`,
    );
  }
  const [issue] = parsed.issues;
  const id = typeof entry === "object" && entry !== null && "id" in entry ? ` (${String(entry.id)})` : "";
  const field = v.getDotPath(issue) ?? "entry";
  throw new MutantListError(`entry ${index + 1}${id}: ${field}: ${issue.received}; expected ${issue.expected}`);
}

/**
 * Returns the mutants to run.
 *
 * @param only ids; all when empty
 * @throws MutantListError for an unknown id
 */
export function selectMutants(mutants: readonly Mutant[], only: readonly string[]): readonly Mutant[] {
  const ids = new Set(mutants.map(({ id }) => id));
  const unknown = only.filter((id) => !ids.has(id));
  if (unknown.length > 0)
    throw new MutantListError(`no mutant ${unknown.join(", ")}; expected some of ${[...ids].join(", ")}`);
  return only.length === 0 ? mutants : mutants.filter(({ id }) => only.includes(id));
}

/** Returns the source with the mutant's breakage. @throws MutantListError unless the line occurs exactly once */
export function applyMutant(source: string, { id, file, line, replacement }: Mutant): string {
  const occurrences = source.split(line).length - 1;
  if (occurrences !== 1) {
    throw new MutantListError(
      `${id}: line: occurs ${occurrences} times in ${file}; expected once: ${JSON.stringify(line)}`,
    );
  }
  // A function, since "$&" in a replacement text would be a pattern.
  return source.replace(line, () => replacement);
}

/** Whether the test runs the executable, which must then be built again from the mutated sources. */
export function runsExecutable({ test }: Pick<Mutant, "test">): boolean {
  return !test.startsWith("test/unit/");
}

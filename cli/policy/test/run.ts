import * as v from "valibot";
import { parseEndName } from "../../cluster/end_name.ts";
import { ExitCode, type Io, styleOf } from "../../io.ts";
import { expectOneReading } from "../../input/load.ts";
import { writeAll } from "../../output/write_all.ts";
import { printable, shortList } from "../../../objects/printable.ts";
import { policyInputEntries, readPolicyInput } from "../policy_input.ts";
import type { ExplainContext } from "../explain/context.ts";
import { explainContext } from "../question_ends.ts";
import { TEST_FORMATS } from "./command.ts";
import { readExpectations } from "./expectation.ts";
import { evaluateAll, type TestResult } from "./evaluate_expectations.ts";
import { testJson, testJunit, testTap, testText } from "./print.ts";
import { tellUnjudged } from "../../ways_in/ways_in.ts";

const MOST_NAMED = 5;

const optionsSchema = v.object({
  ...policyInputEntries,
  paths: v.array(v.string()),
  output: v.picklist(TEST_FORMATS),
});

/** Runs the tests. @throws DrawbridgeError ERR_INPUT as readExpectations and loadManifests, ERR_CONFIGURATION */
export async function runTest(io: Io, options: unknown): Promise<ExitCode> {
  const { paths, output, ...input } = v.parse(optionsSchema, options);
  expectOneReading([paths, input.filename]);
  const expectations = readExpectations(io, paths);
  const read = await readPolicyInput(io, input);
  const context = explainContext(
    read,
    expectations.flatMap(({ from, to }) => [from, to]),
  );
  const results = evaluateAll(context, expectations, read.namespace);
  const print: Readonly<Record<typeof output, () => Iterable<string>>> = {
    table: () => testText(results, io.out.columns, styleOf(io.out)),
    tap: () => testTap(results),
    junit: () => testJunit(results),
    json: () => [testJson(results)],
  };
  writeAll(io.out, print[output]());
  tellWaysIn(io, context, results);
  if (results.some(({ outcome }) => outcome === "cannot be judged")) return ExitCode.ERROR;
  return results.every(({ outcome }) => outcome === "holds") ? ExitCode.YES : ExitCode.NO;
}

/** Reports what expectations omit: they cover packets to the pods, but an Ingress may lead there, too. */
function tellWaysIn(io: Io, context: ExplainContext, results: readonly TestResult[]): void {
  const isAboutOutside = results.some(({ expectation }) =>
    ["address", "outside"].includes(parseEndName(expectation.from)?.type ?? ""),
  );
  if (isAboutOutside) tellUnjudged(io, context.waysIn.doubts);
  for (const { expectation, waysIn, unknownWaysIn } of results) {
    const tell = (text: string): void => io.err.write(`${printable(`${expectation.name}: ${text}`)}\n`);
    if (waysIn.length > 0)
      tell(`connections from outside come in through ${shortList(waysIn, MOST_NAMED)} all the same`);
    if (unknownWaysIn.length === 0) continue;
    tell(`not known: whether connections from outside come in through ${shortList(unknownWaysIn, MOST_NAMED)}`);
  }
}

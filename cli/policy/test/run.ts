import * as v from "valibot";
import { clusterOf } from "../../cluster/cluster.ts";
import { ExitCode } from "../../exit_code.ts";
import { configurationOf, policyOptionsOf, serviceSettingsOf } from "../../input/configuration_file.ts";
import { configurationEntries, inputEntries } from "../../input/input_schema.ts";
import { expectOneReading, loadManifests, namespaceFor } from "../../input/load.ts";
import type { Io } from "../../io.ts";
import { writeAll } from "../../output/write_all.ts";
import { styleOf } from "../../style.ts";
import { ExplainContext } from "../explain/context.ts";
import { TEST_FORMATS } from "./command.ts";
import { readExpectations } from "./expectation.ts";
import type { TestResult } from "./judge.ts";
import { judgeAll } from "./judge.ts";
import { testJson, testJunit, testTap, testText } from "./print.ts";

const optionsSchema = v.object({
  ...inputEntries,
  ...configurationEntries,
  paths: v.array(v.string()),
  output: v.picklist(TEST_FORMATS),
});

/** @throws DrawbridgeError ERR_INPUT as readExpectations and loadManifests, ERR_CONFIGURATION */
export async function runTest(io: Io, options: unknown): Promise<ExitCode> {
  const { paths, output, config, ...input } = v.parse(optionsSchema, options);
  expectOneReading([paths, input.filename]);
  const expectations = readExpectations(io, paths);
  const configuration = configurationOf(io, config, input.filename);
  const { manifests } = await loadManifests(io, input);
  const context = new ExplainContext(
    clusterOf(manifests, policyOptionsOf(configuration)),
    serviceSettingsOf(configuration),
  );
  const results = judgeAll(context, expectations, await namespaceFor(io, input, input.cluster));
  writeAll(io.out, printed(results, output, io));
  if (results.some(({ outcome }) => outcome === "cannot be judged")) return ExitCode.ERROR;
  return results.every(({ outcome }) => outcome === "holds") ? ExitCode.YES : ExitCode.NO;
}

function printed(results: readonly TestResult[], format: (typeof TEST_FORMATS)[number], { out }: Io): Iterable<string> {
  switch (format) {
    case "table":
      return testText(results, out.columns, styleOf(out));
    case "tap":
      return testTap(results);
    case "junit":
      return testJunit(results);
    case "json":
      return [testJson(results)];
  }
}

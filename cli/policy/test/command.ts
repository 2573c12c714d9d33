import { Command, Option } from "commander";
import { withConfiguration, withInput } from "../../input/options.ts";
import { actionOf, type Run } from "../../io.ts";
import { withControllers } from "../../ways_in/controller_option.ts";

export const TEST_FORMATS = ["table", "tap", "junit", "json"] as const;

/** Returns the command `policy test`, which checks whether expectations of connections hold. */
export function testCommand(run: Run): Command {
  return withControllers(withConfiguration(withInput(new Command("test"))))
    .description("whether connections are allowed and denied as a file expects it")
    .argument("<path...>", "files with expectations; - is standard input")
    .addOption(new Option("-o, --output <format>", "how to print it").choices(TEST_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nExit code 0 when all expectations hold, 1 when one does not, 3 when one cannot be judged.\n\nExamples:\n" +
        "  drawbridge policy test expectations.yaml -f manifests/ -R\n" +
        "  drawbridge policy test expectations.yaml --cluster -o junit > report.xml\n",
    )
    .action(actionOf(run, async () => (await import("./run.ts")).runTest, "paths"));
}

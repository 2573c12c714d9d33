import { Command, InvalidArgumentError, Option } from "commander";
import { addWords, withConfiguration, withInput } from "../../input/options.ts";
import { withShown } from "../../input/shown.ts";
import { actionOf, type Run } from "../../io.ts";
import { withControllers } from "../../ways_in/controller_option.ts";
import { SEVERITIES } from "../../../policyd/problems/check.ts";

export const LINT_FORMATS = ["table", "json", "sarif"] as const;

/** Returns the command `policy lint`, which finds what policies and Services probably do not mean. */
export function lintCommand(run: Run): Command {
  const command = withInput(new Command("lint"), (options) => !("list" in options && options.list === true));
  return withControllers(withShown(withConfiguration(command)))
    .description("what policies and Services probably do not mean, and how to correct it")
    .addOption(
      new Option("--fail-on <severity>", "exit with 1 for findings at least as grave")
        .choices(SEVERITIES)
        .default("warning"),
    )
    .addOption(
      new Option("--min-severity <severity>", "print only findings at least as grave")
        .choices(SEVERITIES)
        .default("info"),
    )
    .addOption(
      new Option("--documentation <url>", "where docs/lint.md is, for links in json and sarif").argParser(readPage),
    )
    .addOption(new Option("--only <ids>", "only these rules, such as shadowed,redundant").argParser(addWords))
    .addOption(new Option("--ignore <ids>", "without these rules").argParser(addWords))
    .option("--list", "print the rules and read nothing", false)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(LINT_FORMATS).default("table"))
    .addHelpText(
      "after",
      `
One finding of one object is silenced by an annotation of the object:
  drawbridge.dev/lint-ignore: shadowed,redundant

Example:
  drawbridge policy lint -f manifests/ -R --fail-on error -o sarif
`,
    )
    .action(actionOf(run, async () => (await import("./run.ts")).runLint));
}

function readPage(text: string): string {
  if (text.startsWith("https://") && URL.canParse(text)) return text;
  throw new InvalidArgumentError("expected an address such as https://example.com/docs/lint.md.");
}

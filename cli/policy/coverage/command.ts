import { Command, Option } from "commander";
import { withConfiguration, withInput } from "../../input/options.ts";
import { withShown } from "../../input/shown.ts";
import { actionOf, type Run } from "../../io.ts";
import { withControllers } from "../../ways_in/controller_option.ts";

export const COVERAGE_FORMATS = ["table", "json", "line"] as const;

/** Returns the command `policy coverage`, which says what no policy protects. */
export function coverageCommand(run: Run): Command {
  return withControllers(withShown(withConfiguration(withInput(new Command("coverage")))))
    .description(
      "the pods that no policy selects, the namespaces that are open by default, and what the outside reaches",
    )
    .addOption(new Option("-o, --output <format>", "how to print it").choices(COVERAGE_FORMATS).default("table"))
    .addHelpText("after", "\nExample:\n  drawbridge policy coverage -f manifests/ -R -o line\n")
    .action(actionOf(run, async () => (await import("./run.ts")).runCoverage));
}

import { Command, Option } from "commander";
import { POD_FORMS } from "../../cluster/end_name.ts";
import { GROUPINGS } from "../../cluster/group.ts";
import { addPorts, withConfiguration, withInput } from "../../input/options.ts";
import { withShown } from "../../input/shown.ts";
import { actionOf, type Run } from "../../io.ts";
import { readEnd } from "../explain/command.ts";
import { withControllers } from "../../ways_in/controller_option.ts";

export const MATRIX_FORMATS = ["table", "json", "md", "html"] as const;

/** Returns the command `policy matrix`, which shows who may send what to whom. */
export function matrixCommand(run: Run): Command {
  return withControllers(withShown(withConfiguration(withInput(new Command("matrix")))))
    .description("who may send what to whom")
    .addOption(new Option("--by <what>", "one line for each of these").choices(GROUPINGS).default("workload"))
    .addOption(new Option("--port <list>", "only about these ports, such as 80/TCP,53/UDP").argParser(addPorts))
    .addOption(new Option("--from <end>", `what these may reach: ${POD_FORMS}`).argParser(readEnd))
    .addOption(new Option("--to <end>", "who may reach these, or a domain name").argParser(readEnd))
    .option("--allowed-only", "omit pairs between which nothing may be sent", false)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(MATRIX_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nExamples:\n  drawbridge policy matrix -f manifests/ -R --by namespace\n  drawbridge policy matrix --cluster --to shop/db\n",
    )
    .action(actionOf(run, async () => (await import("./run.ts")).runMatrix));
}

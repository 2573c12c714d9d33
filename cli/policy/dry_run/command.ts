import { Command, Option } from "commander";
import { withAccess, withConfiguration, withDaemons, withPrograms } from "../../input/options.ts";
import { CLUSTER } from "../../input/place.ts";
import { withShown } from "../../input/shown.ts";
import { withReading } from "../../input/reading.ts";
import { actionOf, type Run } from "../../io.ts";
import { withControllers } from "../../ways_in/controller_option.ts";
import { DIFF_FORMATS } from "../diff/command.ts";

/** Returns the command `policy dry-run`, which shows what a change would open and close. */
export function dryRunCommand(run: Run): Command {
  const command = new Command("dry-run");
  const isCluster = (): boolean => [command.getOptionValue("against")].flat().includes(CLUSTER);
  const read = withAccess(withReading(withPrograms(command)), "--against cluster", isCluster);
  withControllers(withShown(withConfiguration(withDaemons(read))))
    .description("what would open and close if these objects were applied or deleted")
    .option("-f, --filename <path...>", "files or directories with the objects to apply; - is standard input")
    .requiredOption(
      "--against <path...>",
      "files or directories with the objects that are there; cluster is the running one",
    )
    .option("-R, --recursive", "read the directories below the given ones, too", false)
    .option("--delete [name...]", "delete these (networkpolicy/NS/NAME) or, without names, the objects of -f")
    .option("--live", "say which connections that exist now would be cut: kubectl reads the tables of all nodes", false)
    .option(
      "--ledger <file...>",
      "what drawbridge flows -o jsonl printed: also say which flows seen before would be cut",
    )
    .addOption(new Option("-o, --output <format>", "how to print it").choices(DIFF_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nExit code 0 when nothing opens or closes, 1 when something is; with --live or --ledger 1\n" +
        "when a connection that exists or was seen would be cut.\n\nExamples:\n" +
        "  drawbridge policy dry-run -f change.yaml --against manifests/ -R\n" +
        "  drawbridge policy dry-run --delete networkpolicy/shop/web --against cluster\n" +
        "  drawbridge policy dry-run -f change.yaml --against cluster --live\n",
    );
  return command.action(actionOf(run, async () => (await import("./run.ts")).runDryRun));
}

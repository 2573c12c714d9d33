import { Command } from "commander";
import { withConfiguration, withDaemons, withInput } from "../../input/options.ts";
import { actionOf, type Run } from "../../io.ts";
import { withControllers } from "../../ways_in/controller_option.ts";

/** Returns the command `policy suggest`, which prints the smallest policies that allow the connections seen. */
export function suggestCommand(run: Run): Command {
  const command = withControllers(withConfiguration(withDaemons(withInput(new Command("suggest")))))
    .description("NetworkPolicies for a namespace (-n) that allow the connections that were seen, and no others")
    .option("--live", "the connections that exist now: kubectl reads the tables of all nodes", false)
    .option("--conntrack <file...>", "what conntrack -L printed on nodes (also -o extended), instead of --live")
    .option("--ledger <file...>", "what drawbridge flows -o jsonl printed: all that was seen, and not of one moment")
    .addHelpText(
      "after",
      "\nThe policies go to standard output, and remarks to standard error. Exit code 0, or 1 when a connection that was\n" +
        "seen is not allowed by them.\n\nExample:\n" +
        "  drawbridge policy suggest -n shop --cluster --live > shop.yaml\n" +
        "  drawbridge policy dry-run -f shop.yaml --against cluster --live\n",
    );
  return command.action(actionOf(run, async () => (await import("./run.ts")).runSuggest));
}

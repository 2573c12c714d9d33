import { Command } from "commander";
import { withConfiguration, withInput } from "../input/options.ts";
import { actionOf, type Run } from "../io.ts";

/** Returns the command `rules`, which prints the nft text that a node would load. */
export function rulesCommand(run: Run): Command {
  return withConfiguration(withInput(new Command("rules")))
    .description("the nftables rules a node would load for these Services and policies")
    .requiredOption("--node <name>", "the node")
    .addHelpText("after", "\nExample:\n  drawbridge rules -f manifests/ -R --node worker-1 | nft -c -f -\n")
    .action(actionOf(run, async () => (await import("./run.ts")).runRules));
}

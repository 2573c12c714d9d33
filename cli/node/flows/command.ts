import { Command } from "commander";
import { withFlowOptions } from "../../flows/options.ts";
import { withConfiguration } from "../../input/options.ts";
import type { Run } from "../../io.ts";

/** Returns the command `node flows`, which prints this node's ledger of flows. */
export function nodeFlowsCommand(run: Run): Command {
  const command = withFlowOptions(withConfiguration(new Command("flows")))
    .description("who has talked to whom, as this node's ledger of flows has it; run it there, as root")
    .option("--socket <path>", "policyd's socket (default: /run/drawbridge/policyd.sock)")
    .option("--flow-directory <path>", "where the ledger is (default: /var/lib/cni/drawbridge-flows)")
    .addHelpText(
      "after",
      "\nThe daemon keeps a ledger with flowLedger: true. `drawbridge flows` runs this on every node, and --ledger of\n" +
        "`policy dry-run` and `policy suggest` reads what it prints with -o jsonl.\n",
    );
  return command.action(async (options: unknown) => {
    const { runNodeFlows } = await import("./run.ts");
    run.end(await runNodeFlows(run.io, options));
  });
}

import { Command } from "commander";
import { withDaemons, withKubeconfig } from "../input/options.ts";
import { actionOf, type Run } from "../io.ts";
import { withFlowOptions } from "./options.ts";

/** Returns the command `flows`, which prints the ledgers of flows of all nodes. */
export function flowsCommand(run: Run): Command {
  const command = withKubeconfig(
    withFlowOptions(withDaemons(new Command("flows")))
      .description("who has talked to whom in the cluster, as the ledgers of its nodes have it")
      .option("--node <name>", "only of this node"),
  ).addHelpText(
    "after",
    "\nThe nodes' daemons keep ledgers with flowLedger: true; kubectl runs `node flows` in their containers, for which\n" +
      "you need the right to create pods/exec there.\n\nExamples:\n" +
      "  drawbridge flows --to shop/db --since 24h\n" +
      "  drawbridge flows --denied --follow\n" +
      "  drawbridge flows -o jsonl > flows.jsonl\n",
  );
  return command.action(actionOf(run, async () => (await import("./run.ts")).runFlows));
}

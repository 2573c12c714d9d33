import { Command, Option } from "commander";
import { readTimeout, withAccess, withConfiguration, withDaemons } from "../../input/options.ts";
import { withReading } from "../../input/reading.ts";
import { actionOf, type Run } from "../../io.ts";

export const STATUS_FORMATS = ["table", "json"] as const;

/** Returns the command `policy status`, which shows the generation of each policy in force on the nodes. */
export function statusCommand(run: Run): Command {
  const read = withAccess(withReading(new Command("status")), "the cluster", () => true);
  const command = withConfiguration(withDaemons(read))
    .description(
      "of each policy of the running cluster: in force yet, on which nodes, since when, and which rules are used",
    )
    .argument(
      "[name...]",
      "policies: shop/db, db with -n shop, or the name of a ClusterNetworkPolicy; all without names",
    )
    .option("--wait", "until all of them are in force on every node", false)
    .addOption(
      new Option("--timeout <duration>", "how long --wait waits, 0 without limit")
        .argParser(readTimeout)
        .default(60_000, "60s"),
    )
    .addOption(new Option("-o, --output <format>", "how to print it").choices(STATUS_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nYour own kubectl runs `node policies` in the daemon's container of each node, for which you need the right to\n" +
        "create pods/exec there. Exit code 0 when all are in force on every node, and 1 when one is not.\n\nExamples:\n" +
        "  drawbridge policy status -n shop db\n" +
        "  kubectl apply -f shop.yaml && drawbridge policy status shop/db --wait --timeout 30s\n",
    );
  return command.action(actionOf(run, async () => (await import("./run.ts")).runStatus, "names"));
}

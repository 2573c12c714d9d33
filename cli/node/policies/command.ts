import { Command } from "commander";
import { withConfiguration } from "../../input/options.ts";
import type { Run } from "../../io.ts";

/** Returns the command `node policies`, which prints the policies in force on this node. */
export function nodePoliciesCommand(run: Run): Command {
  return withConfiguration(new Command("policies"))
    .description("print a line of JSON for each policy: its generation in force on this node; run it there, as root")
    .option("--socket <path>", "policyd's socket (default: /run/drawbridge/policyd.sock)")
    .addHelpText("after", "\n`policy status` runs it on every node.\n")
    .action(async (options: unknown) => {
      const { runNodePolicies } = await import("./run.ts");
      run.end(await runNodePolicies(run.io, options));
    });
}

import { Command } from "commander";
import type { Run } from "../../io.ts";

/** Returns the command `node connections`, which prints this node's table of connections. */
export function connectionsCommand(run: Run): Command {
  return new Command("connections")
    .description("print this node's table of connections, as conntrack -L -o extended does; run it there, as root")
    .option("--network-namespace <path>", "look at this network namespace instead of our own")
    .addHelpText(
      "after",
      "\nIt changes nothing. `policy dry-run --live` runs it on every node; `policy suggest --conntrack` reads what it prints.\n",
    )
    .action(async (options: unknown) => {
      const { runConnections } = await import("./run.ts");
      run.end(await runConnections(run.io, options));
    });
}

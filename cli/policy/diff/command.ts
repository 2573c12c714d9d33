import { Command, Option } from "commander";
import { GROUPINGS } from "../../cluster/group.ts";
import { withAccess, withConfiguration } from "../../input/options.ts";
import { CLUSTER } from "../../input/place.ts";
import type { Run } from "../../program.ts";

export const DIFF_FORMATS = ["table", "wide", "json", "csv", "dot", "mermaid"] as const;

/** `policy diff`: what may be sent on one side and not on the other. */
export function diffCommand(run: Run): Command {
  const command = new Command("diff");
  const isCluster = (): boolean => command.processedArgs.slice(0, 2).includes(CLUSTER);
  return withConfiguration(withAccess(command, "the word cluster as a side", isCluster))
    .description("the connections that one set of files allows and the other does not")
    .argument(
      "<old>",
      "a file or a directory with the objects as they were; - is standard input, cluster the running one",
    )
    .argument("<new>", "the same as they are to be")
    .option("-R, --recursive", "read the directories below the given ones, too", false)
    .addOption(new Option("--by <what>", "tell these as one").choices(GROUPINGS).default("workload"))
    .addOption(new Option("-o, --output <format>", "how to print it").choices(DIFF_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nExit code 0 without a difference, 1 with one.\n\nExample:\n  drawbridge policy diff main/ branch/ -R\n",
    )
    .action(async (old: string, young: string, options: object) => {
      const { runDiff } = await import("./run.ts");
      run.end(await runDiff(run.io, { ...options, old, new: young }));
    });
}

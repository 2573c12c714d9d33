import { Command, Option } from "commander";
import { GROUPINGS } from "../../cluster/group.ts";
import { withAccess, withConfiguration, withPrograms } from "../../input/options.ts";
import { CLUSTER } from "../../input/place.ts";
import { withReading } from "../../input/reading.ts";
import { withShown } from "../../input/shown.ts";
import type { Run } from "../../io.ts";
import { withControllers } from "../../ways_in/controller_option.ts";

export const DIFF_FORMATS = ["table", "json", "md", "html"] as const;

/** Returns the command `policy diff`, which compares what two sides allow. */
export function diffCommand(run: Run): Command {
  const command = new Command("diff");
  const sides = (): Sides | undefined => sidesOf(command.processedArgs, command.getOptionValue("filename"));
  const isCluster = (): boolean => [sides()?.old, ...(sides()?.new ?? [])].includes(CLUSTER);
  const read = withAccess(withReading(withPrograms(command)), "the word cluster as a side", isCluster);
  return withControllers(withShown(withConfiguration(read)))
    .description("the connections that one set of files allows and the other does not")
    .argument(
      "[old]",
      "a file or a directory with the objects as they were; - is standard input, cluster the running one",
    )
    .argument("[new]", "the same as they are to be")
    .option("-f, --filename <path...>", "the new side, after an argument for the old one; or the old and the new side")
    .option("-R, --recursive", "read the directories below the given ones, too", false)
    .addOption(new Option("--by <what>", "tell these as one").choices(GROUPINGS).default("workload"))
    .addOption(new Option("-o, --output <format>", "how to print it").choices(DIFF_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nExit code 0 when nothing opens or closes for anybody, also for pods in no file; 1 when something does.\n\nExamples:\n  drawbridge policy diff main/ branch/ -R\n" +
        "  drawbridge policy diff --kustomize main/overlays/live --kustomize branch/overlays/live\n",
    )
    .action(async (_old: unknown, _new: unknown, options: object) => {
      const { runDiff } = await import("./run.ts");
      run.end(await runDiff(run.io, { ...options, ...(sides() ?? command.error(SIDES_EXPECTED)) }));
    });
}

/** The two sides of a comparison. */
interface Sides {
  readonly old: string;
  readonly new: readonly string[];
}

const SIDES_EXPECTED =
  "error: expected two sides, OLD and NEW, as arguments or by -f, --kustomize and --helm; a change is tried against " +
  "existing objects by: policy dry-run -f CHANGE --against PATH (or cluster)";

/** @returns undefined unless there are exactly two sides */
function sidesOf(args: readonly unknown[], filename: unknown): Sides | undefined {
  const named = args.slice(0, 2).filter((one) => typeof one === "string");
  const given = Array.isArray(filename) ? filename.filter((one) => typeof one === "string") : [];
  const [old, ...young] = [...named, ...given];
  const areTwo = named.length === 1 ? young.length > 0 : young.length === 1;
  return old === undefined || !areTwo ? undefined : { old, new: young };
}

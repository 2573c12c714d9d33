import { Command, Option } from "commander";
import { addWords, withDaemons, withKubeconfig } from "../input/options.ts";
import { actionOf, type Run } from "../io.ts";

export const CHECK_FORMATS = ["table", "json"] as const;

/** Returns the command `check`, which tries connections of pods in the running cluster. */
export function checkCommand(run: Run): Command {
  const command = withKubeconfig(
    withDaemons(new Command("check"))
      .description("whether pods of the running cluster reach what they should, tried with pods of its own")
      .addOption(new Option("--node <names>", "the nodes to try, such as a,b; any two without it").argParser(addWords))
      .option(
        "--outside <addresses>",
        "what to reach outside of the cluster, or none",
        "1.1.1.1:443,[2606:4700:4700::1111]:443",
      ),
  )
    .addOption(new Option("-o, --output <format>", "how to print it").choices(CHECK_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nYour own kubectl makes a namespace drawbridge-check-… with pods of the daemon's image, a Service and policies, runs\n" +
        "commands in a pod, and deletes the namespace, also after Ctrl-C. Exit code 0 when everything works, 1 when\n" +
        "something does not, and 3 when it could not be tried.\n\nExamples:\n" +
        "  drawbridge check\n" +
        "  drawbridge check --node node-1,node-2 --outside none\n",
    );
  return command.action(actionOf(run, async () => (await import("./run.ts")).runCheck));
}

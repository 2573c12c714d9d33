import { Command } from "commander";
import { withDaemons, withKubeconfig } from "../input/options.ts";
import { actionOf, type Run } from "../io.ts";

/** Returns the command `bundle`, which collects what a maintainer asks for into one archive. */
export function bundleCommand(run: Run): Command {
  const command = withKubeconfig(
    withDaemons(new Command("bundle"))
      .description("what a maintainer asks for, of all nodes or of one, as a tar archive on standard output")
      .option("--node <name>", "only of this node"),
  ).addHelpText(
    "after",
    "\nYour own kubectl reads the nodes' logs and runs commands in the daemons' containers, for which you need the right\n" +
      "to create pods/exec there. The archive has addresses, and names of namespaces, pods, nodes and labels. Exit code 0\n" +
      "when everything was collected, and 1 when something is missing.\n\nExamples:\n" +
      "  drawbridge bundle > bundle.tar\n" +
      "  drawbridge bundle --node node-1 | gzip > bundle.tar.gz\n",
  );
  return command.action(actionOf(run, async () => (await import("./run.ts")).runBundle));
}

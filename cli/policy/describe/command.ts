import { Command } from "commander";
import { POD_FORMS } from "../../cluster/end_name.ts";
import { withConfiguration, withInput } from "../../input/options.ts";
import { actionOf, type Run } from "../../io.ts";
import { withControllers } from "../../ways_in/controller_option.ts";

/** Returns the command `policy describe`, which says in sentences what holds for some pods. */
export function describeCommand(run: Run): Command {
  return withControllers(withConfiguration(withInput(new Command("describe"))))
    .description("what holds for a pod, and from which policies, in a few sentences")
    .argument("<pods>", POD_FORMS)
    .addHelpText("after", "\nExample:\n  drawbridge policy describe shop/db -f manifests/ -R\n")
    .action(actionOf(run, async () => (await import("./run.ts")).runDescribe, "pods"));
}

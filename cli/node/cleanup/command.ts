import { Command, Option } from "commander";
import type { Run } from "../../io.ts";
import { withConfiguration } from "../../input/options.ts";
import { withPlace } from "../place.ts";
import { DOCUMENT_FORMATS } from "../../output/document.ts";

/** Returns the command `node cleanup`, which removes what Drawbridge has left on this node. */
export function cleanupCommand(run: Run): Command {
  const command = withConfiguration(new Command("cleanup"))
    .description("remove what Drawbridge has left on this node; without --yes only say what")
    .option("--yes", "do it", false)
    .option("--pods", "with the pods' links and the bridge: pods that still run lose their network", false)
    .option("--wait", "with --yes: stay until the pods that Drawbridge attached are gone, then remove the rest", false)
    .option("--force", "also while policyd runs, which puts back what it can", false)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(DOCUMENT_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nExamples:\n  drawbridge node cleanup\n  drawbridge node cleanup --pods --yes\n  drawbridge node cleanup --pods --yes --wait\n",
    );
  return withPlace(command).action(async (options: unknown) => {
    const { runCleanup } = await import("./run.ts");
    run.end(await runCleanup(run.io, options));
  });
}

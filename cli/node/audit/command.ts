import { Command, Option } from "commander";
import type { Run } from "../../io.ts";
import { withConfiguration } from "../../input/options.ts";
import { withPlace } from "../place.ts";
import { DOCUMENT_FORMATS } from "../../output/document.ts";

/** Returns the command `node audit`, which lists what ended sandboxes have left on the node, and removes it. */
export function auditCommand(run: Run): Command {
  const command = withConfiguration(new Command("audit"))
    .description("list addresses, links, elements, records and host ports that belong to no pod of this node")
    .option("--repair", "release and remove what is listed, as far as its sandbox is known to have ended", false)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(DOCUMENT_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nWithout --repair it changes nothing. Pods may come and go meanwhile.\n\nExamples:\n  drawbridge node audit\n  drawbridge node audit --repair -o json\n",
    );
  return withPlace(command).action(async (options: unknown) => {
    const { runAudit } = await import("./run.ts");
    run.end(await runAudit(run.io, options));
  });
}

import { Command, Option } from "commander";
import type { Run } from "../../io.ts";
import { addWords, withConfiguration } from "../../input/options.ts";
import { withPlace } from "../place.ts";
import { DOCUMENT_FORMATS } from "../../output/document.ts";

/** Returns the command `node doctor`, which reports what is wrong with this node. */
export function doctorCommand(run: Run): Command {
  const command = withConfiguration(new Command("doctor"))
    .description("what is wrong with this node, and how to mend it; run it there, as root")
    .addOption(new Option("--only <checks>", "only these checks, such as forwarding,tables").argParser(addWords))
    .option("--list", "print the checks and look at nothing", false)
    .option("--probe", "attach two pods, send packets to and from them, and delete them; as root on the node", false)
    .addOption(new Option("-o, --output <format>", "how to print it").choices(DOCUMENT_FORMATS).default("table"))
    .addHelpText(
      "after",
      "\nWithout --probe it changes nothing.\n\nExamples:\n  drawbridge node doctor -o json\n  drawbridge node doctor --probe\n",
    );
  return withPlace(command).action(async (options: unknown) => {
    const { runDoctor } = await import("./run.ts");
    const outcome = await runDoctor(run.io, options);
    if (typeof outcome === "string") command.error(`error: ${outcome}`);
    else run.end(outcome);
  });
}

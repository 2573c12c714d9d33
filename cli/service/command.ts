import { Command, InvalidArgumentError, Option } from "commander";
import { END_FORMS } from "../cluster/end_name.ts";
import { withConfiguration, withInput } from "../input/options.ts";
import { EXPLAIN_FORMATS, readSource } from "../policy/explain/command.ts";
import { actionOf, type Run } from "../io.ts";
import { parseTarget, TARGET_FORMS } from "./target.ts";

const EXAMPLES = `
Examples:
  drawbridge service explain -f manifests/ --from shop/web-0 --to service/shop/api:80
  drawbridge service explain -f manifests/ --from 203.0.113.7 --to 192.0.2.11:30080/TCP --node worker-1
`;

/** Returns the command `service explain`, which says where a node's Services send a packet. */
export function serviceExplainCommand(run: Run): Command {
  return withConfiguration(withInput(new Command("explain")))
    .description("where a packet goes by the Services of a node, whatever policies say")
    .addOption(new Option("--from <end>", END_FORMS).argParser(readSource).makeOptionMandatory())
    .addOption(new Option("--to <target>", TARGET_FORMS).argParser(readTarget).makeOptionMandatory())
    .addOption(new Option("--node <name>", "the node the packet is on; by default that of its sender"))
    .addOption(new Option("-o, --output <format>", "how to print it").choices(EXPLAIN_FORMATS).default("table"))
    .addHelpText("after", EXAMPLES)
    .action(actionOf(run, async () => (await import("./run.ts")).runServiceExplain));
}

function readTarget(text: string): string {
  if (parseTarget(text) === undefined) throw new InvalidArgumentError(`expected ${TARGET_FORMS}.`);
  return text;
}

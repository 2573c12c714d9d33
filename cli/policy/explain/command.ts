import { Command, InvalidArgumentError, Option } from "commander";
import { END_FORMS, parseEndName, unjudgedEnd } from "../../cluster/end_name.ts";
import { readPorts, withConfiguration, withInput } from "../../input/options.ts";
import { actionOf, type Run } from "../../io.ts";
import { type AskedPort, askedPort } from "../../input/port_text.ts";
import { withControllers } from "../../ways_in/controller_option.ts";

export const EXPLAIN_FORMATS = ["table", "json"] as const;

const EXAMPLES = `
Examples:
  drawbridge policy explain -f manifests/ --from shop/deployment/web --to service/shop/api --port 80
  drawbridge policy explain -f manifests/ --from 203.0.113.7 --to shop/web-0 --port 8080/TCP -o json
`;

/** Returns the command `policy explain`, which says why one end may or may not reach another. */
export function explainCommand(run: Run): Command {
  return withControllers(withConfiguration(withInput(new Command("explain"))))
    .description("why a connection is allowed or denied, from end to end; without --port, all that is allowed")
    .addOption(
      new Option("--from <end>", END_FORMS).argParser((text) => judged(readSource(text))).makeOptionMandatory(),
    )
    .addOption(new Option("--to <end>", END_FORMS).argParser((text) => judged(readEnd(text))).makeOptionMandatory())
    .addOption(
      new Option("--port <port>", "such as 80/TCP, 53/UDP or icmp, or by name; of a Service its own").argParser(
        readTraffic,
      ),
    )
    .addOption(new Option("-o, --output <format>", "how to print it").choices(EXPLAIN_FORMATS).default("table"))
    .addHelpText("after", EXAMPLES)
    .action(actionOf(run, async () => (await import("./run.ts")).runExplain));
}

/** Checks the name of an end. @throws InvalidArgumentError */
export function readEnd(text: string): string {
  if (parseEndName(text) !== undefined) return text;
  if (/^[0-9a-f.:]+\/\d+$/i.test(text)) {
    throw new InvalidArgumentError("a range: policies may tell its addresses apart; give one of them.");
  }
  throw new InvalidArgumentError(`expected ${END_FORMS}.`);
}

/** @throws InvalidArgumentError for an end about which policies say nothing */
function judged(text: string): string {
  const problem = unjudgedEnd(parseEndName(text));
  if (problem !== undefined) throw new InvalidArgumentError(`${problem}.`);
  return text;
}

/** Checks the name of a source. @throws InvalidArgumentError */
export function readSource(text: string): string {
  if (parseEndName(readEnd(text))?.type === "service")
    throw new InvalidArgumentError("a Service sends nothing; name the pods or the workload.");
  return text;
}

function readTraffic(text: string): AskedPort {
  const asked = askedPort(text);
  if (asked !== undefined) return asked;
  const [first, ...others] = readPorts(text);
  if (first === undefined || others.length > 0) throw new InvalidArgumentError("expected one port, such as 80/TCP.");
  return first;
}

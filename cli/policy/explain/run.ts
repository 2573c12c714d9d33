import { PROTOCOLS } from "../../../objects/protocol.ts";
import * as v from "valibot";
import { ExitCode, type Io, styleOf } from "../../io.ts";
import { EXPLAIN_FORMATS } from "./command.ts";
import { explain } from "./explain.ts";
import { trafficTo } from "./port_name.ts";
import { answerOf, isAnswer } from "./explanation.ts";
import { explainWaysIn } from "./ways_in.ts";
import { policyInputEntries, readPolicyInput } from "../policy_input.ts";
import { endsOfQuestion, explainContext } from "../question_ends.ts";
import { explanationText } from "./print.ts";
import { tellUnjudged } from "../../ways_in/ways_in.ts";

const optionsSchema = v.object({
  ...policyInputEntries,
  from: v.string(),
  to: v.string(),
  port: v.optional(
    v.union([
      v.object({ protocol: v.picklist(PROTOCOLS), port: v.number() }),
      v.object({ protocol: v.literal("ICMP") }),
      v.object({ name: v.string() }),
    ]),
  ),
  output: v.picklist(EXPLAIN_FORMATS),
});

/** Prints the explanation. @throws DrawbridgeError as loadManifests, and ERR_OBJECT for unknown names */
export async function runExplain(io: Io, options: unknown): Promise<ExitCode> {
  const { from, to, port, output, ...input } = v.parse(optionsSchema, options);
  const read = await readPolicyInput(io, input);
  const context = explainContext(read, [from, to]);
  const ends = endsOfQuestion(context, { from, to }, read.namespace);
  const question = { ...ends, traffic: trafficTo(ends.to, port) };
  const explanation = { ...explain(context, question), waysIn: explainWaysIn(context, question) };
  const text =
    output === "json"
      ? `${JSON.stringify(explanation, null, 2)}\n`
      : explanationText(explanation, styleOf(io.out), io.out.columns);
  io.out.write(text);
  // Connections within the cluster take no way in.
  const isFromOutside = ends.from.hosts.every(({ type }) => type === "outside");
  if (isFromOutside) tellUnjudged(io, context.waysIn.doubts);
  if (explanation.allowed) return ExitCode.YES;
  return isAnswer(answerOf(explanation)) ? ExitCode.NO : ExitCode.ERROR;
}

import { PROTOCOLS } from "../../../objects/protocol.ts";
import * as v from "valibot";
import { clusterOf } from "../../cluster/cluster.ts";
import { ExitCode } from "../../exit_code.ts";
import { serviceSettingsOf } from "../../cluster/service_world.ts";
import { configurationOf, policyOptionsOf } from "../../input/configuration_file.ts";
import { configurationEntries, inputEntries } from "../../input/input_schema.ts";
import { loadManifests, namespaceFor } from "../../input/load.ts";
import type { Io } from "../../io.ts";
import { styleOf } from "../../style.ts";
import { EXPLAIN_FORMATS } from "./command.ts";
import { ExplainContext } from "./context.ts";
import { explain } from "./explain.ts";
import { trafficTo } from "./port_name.ts";
import { answerOf, isAnswer } from "./explanation.ts";
import { explainWaysIn } from "./ways_in.ts";
import { controllerEntries, givenControllers, runningPods } from "../../ways_in/controller_option.ts";
import { endsOfQuestion, standInsForEnds } from "../question_ends.ts";
import { explanationText } from "./print.ts";
import { tellUnjudged } from "../../ways_in/ways_in.ts";

const optionsSchema = v.object({
  ...inputEntries,
  ...configurationEntries,
  ...controllerEntries,
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
  const { from, to, port, output, config, ingressController, ...input } = v.parse(optionsSchema, options);
  const configuration = configurationOf(io, config, input.filename);
  const policyOptions = policyOptionsOf(configuration);
  const { manifests, wayObjects } = await loadManifests(io, { ...input, waysIn: true });
  const namespace = await namespaceFor(io, input, input.cluster);
  const objects = manifests.map(({ object }) => object);
  const cluster = clusterOf(manifests, policyOptions, standInsForEnds(objects, [from, to], namespace));
  const given = givenControllers(ingressController, runningPods(cluster));
  const context = new ExplainContext(cluster, serviceSettingsOf(configuration), { objects: wayObjects, given });
  const ends = endsOfQuestion(context, { from, to }, namespace);
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

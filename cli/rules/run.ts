import * as v from "valibot";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { ClusterObject } from "../../objects/model.ts";
import { nearestNames } from "../nearest_names.ts";
import { ExitCode } from "../exit_code.ts";
import { configurationOf } from "../input/configuration_file.ts";
import { configurationEntries, inputEntries } from "../input/input_schema.ts";
import { loadManifests } from "../input/load.ts";
import type { Io } from "../io.ts";
import { withEndpoints } from "./endpoints.ts";
import { nodeRules } from "./node_rules.ts";
import { rulesText } from "./print.ts";

const optionsSchema = v.object({
  ...inputEntries,
  node: v.string(),
  ...configurationEntries,
});

/** Prints the rules. @throws DrawbridgeError ERR_CONFIGURATION; ERR_INPUT also for a node that files lack */
export async function runRules(io: Io, options: unknown): Promise<ExitCode> {
  const { node, config, ...input } = v.parse(optionsSchema, options);
  const configuration = configurationOf(io, config, input.filename, { nodeName: { value: node, where: "--node" } });
  const { objects, remarks: ofEndpoints } = withEndpoints((await loadManifests(io, input)).manifests);
  const ofServices = configuration.services
    ? ofEndpoints
    : ["Services are not in it: by the configuration (services: false) another program serves them."];
  const ofPolicies = configuration.policies
    ? []
    : ["Policies are not in it: the configuration has none (policies: false)."];
  const remarks = [...nodeRemarks(objects, node), ...ofServices, ...ofPolicies];
  for (const text of rulesText(node, nodeRules(objects, configuration), remarks)) io.out.write(text);
  return ExitCode.YES;
}

/** Returns what is unknown of a node. @throws DrawbridgeError ERR_INPUT if there are Nodes without it */
function nodeRemarks(objects: readonly ClusterObject[], node: string): readonly string[] {
  const names = objects.flatMap(({ kind, name }) => (kind === "Node" ? [name] : []));
  if (names.includes(node)) return [];
  if (names.length === 0)
    return [`Node ${node} is not among the objects: its zone, addresses and pod networks are unknown.`];
  const [nearest] = nearestNames(node, names);
  const way = nearest === undefined ? `one of ${names.toSorted().slice(0, 5).join(", ")}` : `did you mean ${nearest}?`;
  throw new DrawbridgeError("ERR_INPUT", `--node: ${JSON.stringify(node)} is not a Node of these objects; ${way}`);
}

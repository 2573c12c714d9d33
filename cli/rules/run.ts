import * as v from "valibot";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { ClusterObject } from "../../policyd/cluster/model.ts";
import type { Configuration } from "../../policyd/configuration/configuration.ts";
import { readConfiguration } from "../../policyd/configuration/configuration.ts";
import { nearestNames } from "../cluster/nearest_names.ts";
import { ExitCode } from "../exit_code.ts";
import { inputEntries } from "../input/input_schema.ts";
import { loadManifests } from "../input/load.ts";
import type { Io } from "../io.ts";
import { withEndpoints } from "./endpoints.ts";
import { nodeRules } from "./node_rules.ts";
import { rulesText } from "./print.ts";

const optionsSchema = v.object({
  ...inputEntries,
  node: v.string(),
  config: v.optional(v.string()),
});

/** @throws DrawbridgeError ERR_CONFIGURATION, ERR_INPUT also for a node that is not among those of the files */
export async function runRules(io: Io, options: unknown): Promise<ExitCode> {
  const { node, config, ...input } = v.parse(optionsSchema, options);
  const configuration = configurationOf(io, node, config);
  const { objects, remarks: ofEndpoints } = withEndpoints((await loadManifests(io, input)).manifests);
  const remarks = [...nodeRemarks(objects, node), ...(configuration.services ? ofEndpoints : [])];
  for (const text of rulesText(node, nodeRules(objects, configuration), remarks)) io.out.write(text);
  return ExitCode.YES;
}

function configurationOf({ files }: Io, node: string, path: string | undefined): Configuration {
  const flags = { nodeName: { value: node, where: "--node" } };
  if (path === undefined) return readConfiguration(undefined, flags);
  if (path !== "-" && files.typeOf(path) !== "file") throw new DrawbridgeError("ERR_INPUT", `${path}: expected a file`);
  const text = Buffer.concat([...files.read(path)]).toString();
  return readConfiguration({ path, text }, flags);
}

/** @throws DrawbridgeError ERR_INPUT */
function nodeRemarks(objects: readonly ClusterObject[], node: string): readonly string[] {
  const names = objects.flatMap(({ kind, name }) => (kind === "Node" ? [name] : []));
  if (names.includes(node)) return [];
  if (names.length === 0)
    return [`Node ${node} is not among the objects: its zone, addresses and pod networks are unknown.`];
  const [nearest] = nearestNames(node, names);
  const way = nearest === undefined ? `one of ${names.toSorted().slice(0, 5).join(", ")}` : `did you mean ${nearest}?`;
  throw new DrawbridgeError("ERR_INPUT", `--node: ${JSON.stringify(node)} is no Node of these objects; ${way}`);
}

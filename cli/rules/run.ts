import * as v from "valibot";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { ClusterObject, EndpointSlice } from "../../objects/model.ts";
import { nearestHint } from "../../objects/nearest_names.ts";
import { ExitCode, type Io } from "../io.ts";
import { configurationOf } from "../input/configuration_file.ts";
import { configurationEntries, inputEntries } from "../input/input_schema.ts";
import { loadManifests } from "../input/load.ts";
import { nodeRules, type NodeRules } from "./node_rules.ts";
import { formatTable } from "../../kernel/nftables/text/text.ts";
import { printable } from "../../objects/printable.ts";
import { clusterOf } from "../cluster/cluster.ts";
import { serviceObjects } from "../cluster/service_objects.ts";
import type { Manifest } from "../input/manifests.ts";
import { serviceKeyOf } from "../../objects/service_key.ts";

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
  const way = nearestHint(node, names, `one of ${names.toSorted().slice(0, 5).join(", ")}`);
  throw new DrawbridgeError("ERR_INPUT", `--node: ${JSON.stringify(node)} is not a Node of these objects; ${way}`);
}

/**
 * Yields the tables as `nft -f` reads them, after comments that say what they do not contain.
 *
 * @param remarks further comments, a line each
 */
function* rulesText(nodeName: string, rules: NodeRules, remarks: readonly string[]): Generator<string> {
  const { tables, localPods, problems } = rules;
  const head = [
    `The tables that policyd would load on node ${nodeName} from these files.`,
    "Not in it, since files do not show it:",
    "- which interface and MAC address each pod of the node has: the guard's sets pod4, pod6 and podmac are empty, and as",
    "  they stand would let no pod send;",
    "- host ports and masquerade, which pods get when they are attached;",
    "- what rules and connections write into sets themselves: which client stays with which endpoint, which connections are",
    "  cut, which pod has too many of them.",
    `Pods of the node: ${localPods.length === 0 ? "none" : localPods.join(", ")}.`,
    ...remarks,
    ...problems,
  ];
  yield `${head.map((line) => `# ${printable(line)}`).join("\n")}\n\n`;
  for (const { table, elements } of tables) yield `${formatTable(table, elements)}\n`;
}

/** Objects with the EndpointSlices that a cluster would add. */
interface WithEndpoints {
  readonly objects: readonly ClusterObject[];
  /** Sentences that say what was added, and which Services have no endpoints. */
  readonly remarks: readonly string[];
}

/**
 * Adds EndpointSlices to objects. Endpoints come only from these, which a cluster makes and people seldom write: a
 * Service without any gets slices with the pods that its selector selects. Pods without an address are omitted.
 *
 * @throws DrawbridgeError ERR_INPUT for a selector the API server would refuse
 */
function withEndpoints(manifests: readonly Manifest[]): WithEndpoints {
  const cluster = clusterOf(manifests);
  const { derived } = serviceObjects(cluster);
  const isReal = ({ address }: EndpointSlice["endpoints"][number]): boolean =>
    cluster.placeholderAddresses.ownerOf(address) === undefined;
  const added = new Map(
    [...derived].map(([key, { slices }]) => [
      key,
      slices
        .map((slice) => ({ ...slice, endpoints: slice.endpoints.filter(isReal) }))
        .filter(({ endpoints }) => endpoints.length > 0),
    ]),
  );
  const objects = manifests.map(({ object }) => object);
  const served = new Set(
    objects.flatMap((object) => (object.kind === "EndpointSlice" ? (serviceKeyOf(object) ?? []) : [])),
  );
  const remarks = objects.flatMap((object) => {
    if (object.kind !== "Service" || object.clusterIps.length === 0 || served.has(object.key)) return [];
    const start = `Service ${object.key} has no EndpointSlice among the files`;
    if ((added.get(object.key) ?? []).length === 0)
      return [`${start} and no pod with an address: its clients are refused.`];
    return [`${start}: its endpoints are the pods that ${derived.get(object.key)?.selector ?? ""} selects.`];
  });
  return { objects: [...objects, ...[...added.values()].flat()], remarks };
}

import * as v from "valibot";
import { buildPolicyIndex } from "../../../policyd/policy/evaluate/policy_index.ts";
import type { ClusterObject } from "../../../policyd/cluster/model.ts";
import { inForce, isShadow } from "../../../policyd/cluster/shadow.ts";
import { GROUPINGS } from "../../cluster/group.ts";
import { storeOf } from "../../cluster/policy_objects.ts";
import { ExitCode } from "../../exit_code.ts";
import { configurationOf, policyOptionsOf } from "../../input/configuration_file.ts";
import { configurationEntries, inputEntries } from "../../input/input_schema.ts";
import { loadManifests } from "../../input/load.ts";
import type { Io } from "../../io.ts";
import { writeAll } from "../../output/write_all.ts";
import { formatDot, formatMermaid } from "../../output/graph.ts";
import { tellOversizes } from "../size.ts";
import { MATRIX_FORMATS } from "./command.ts";
import type { Matrix, PortQuestion } from "./matrix.ts";
import { matrixOf } from "./matrix.ts";
import { cellText } from "./cell.ts";
import { formatList } from "./list.ts";
import { formatGrid, matrixCsv, matrixGraph, matrixJson, matrixWide } from "./print.ts";

const optionsSchema = v.object({
  ...inputEntries,
  ...configurationEntries,
  by: v.picklist(GROUPINGS),
  port: v.optional(v.array(v.object({ protocol: v.picklist(["TCP", "UDP", "SCTP"]), port: v.number() })), []),
  withShadow: v.boolean(),
  output: v.picklist(MATRIX_FORMATS),
});

const MOST_NAMED = 5;

/** @throws DrawbridgeError as loadManifests */
export async function runMatrix(io: Io, options: unknown): Promise<ExitCode> {
  const { by, port: ports, withShadow, output, config, ...input } = v.parse(optionsSchema, options);
  const policyOptions = policyOptionsOf(configurationOf(io, config, input.filename));
  const { manifests } = await loadManifests(io, input);
  const objects = manifests.map(({ object }) => object);
  const index = buildPolicyIndex(storeOf(withShadow ? objects.map(inForce) : objects), policyOptions);
  const matrix = matrixOf(index, by);
  if (output === "table") writeTable(io, matrix, ports, policyOptions.policePodToOwnNode);
  else writeAll(io.out, printed(matrix, ports, output, io.out.columns));
  if (!withShadow) tellShadow(io, objects);
  tellOversizes(io, index);
  return ExitCode.YES;
}

function tellShadow(io: Io, objects: readonly ClusterObject[]): void {
  const names = objects.flatMap((one) => (one.kind === "NetworkPolicy" && isShadow(one) ? [one.key] : []));
  if (names.length === 0) return;
  const more = names.length > MOST_NAMED ? ` and ${names.length - MOST_NAMED} more` : "";
  io.err.write(
    `in shadow and not in force: ${names.slice(0, MOST_NAMED).join(", ")}${more}; --with-shadow shows what they would do\n`,
  );
}

/**
 * For people: a grid where it fits, else a list.
 *
 * @param isPoliced whether NetworkPolicies hold for what pods send to their own node
 */
function writeTable(io: Io, matrix: Matrix, ports: readonly PortQuestion[], isPoliced: boolean): void {
  if (matrix.groups.length === 0) {
    io.err.write("no pods\n");
    return;
  }
  const textOf = cellText(ports);
  const grid = formatGrid(matrix, textOf, io.out.columns);
  io.out.write(grid ?? formatList(matrix, textOf, io.out.columns));
  const isAnyLeftOut = matrix.groups.some(({ pods: [pod, ...more] }) => pod.hostNetwork && more.length === 0);
  if (grid === undefined && isAnyLeftOut) {
    const why = isPoliced ? "which have rules of their own; -o wide has them" : "which no NetworkPolicy keeps apart";
    io.err.write(`not listed: a pod and the network of its own node, ${why}\n`);
  }
  const pods = matrix.groups.flatMap((group) => group.pods);
  if (pods.some((pod) => pod.hostNetwork) && pods.some((pod) => !pod.hostNetwork && pod.nodeName === undefined)) {
    const who = isPoliced ? "from a node to its own pods" : "between a pod and its own node";
    io.err.write(
      `not known: on which node some pods run; NetworkPolicies do not stop traffic ${who}, so it passes there even where ` +
        "the matrix says that it is denied\n",
    );
  }
}

function printed(
  matrix: Matrix,
  ports: readonly PortQuestion[],
  format: Exclude<(typeof MATRIX_FORMATS)[number], "table">,
  columns: number,
): Iterable<string> {
  switch (format) {
    case "wide":
      return matrixWide(matrix, ports, columns);
    case "json":
      return matrixJson(matrix, ports);
    case "csv":
      return matrixCsv(matrix, ports);
    case "dot":
      return [formatDot(matrixGraph(matrix, ports))];
    case "mermaid":
      return [formatMermaid(matrixGraph(matrix, ports))];
  }
}

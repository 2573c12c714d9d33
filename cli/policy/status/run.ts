import * as v from "valibot";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { printable } from "../../../objects/printable.ts";
import { buildPolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { parseReportLine } from "../../../policyd/policies/status/policy_report.ts";
import { nearestHint } from "../../../objects/nearest_names.ts";
import { storeOf } from "../../cluster/policy_objects.ts";
import { ExitCode, type Io, styleOf } from "../../io.ts";
import { configurationOf, policyOptionsOf } from "../../input/configuration_file.ts";
import { accessEntries, configurationEntries, daemonEntries, readingEntries } from "../../input/input_schema.ts";
import { loadManifests, namespaceFor } from "../../input/load.ts";
import { askDaemons, type AwayNode, tellAway } from "../../input/programs/daemons.ts";
import { nodesOf, podNames, selectionOf } from "../dry_run/effect.ts";
import { isPolicy, type Policy } from "../policy_parts.ts";
import { STATUS_FORMATS } from "./command.ts";
import { missingText, statusObject, statusTable } from "./print.ts";
import { type NodeReport, policyId, type PolicyStatus, policyStatus } from "./status.ts";

const optionsSchema = v.object({
  ...accessEntries,
  ...daemonEntries,
  ...readingEntries,
  ...configurationEntries,
  names: v.array(v.string()),
  wait: v.boolean(),
  timeout: v.number(),
  output: v.picklist(STATUS_FORMATS),
});

const QUESTION = {
  option: "policy status",
  args: ["node", "policies", "--config=/etc/drawbridge/policyd.yaml"],
  expected: "policies",
  otherwise: "run drawbridge node policies on each node",
};
const PERIOD_MILLISECONDS = 1000;

/**
 * Prints the status of policies of the running cluster; with `--wait`, once they are in force or the time has run out.
 *
 * @throws DrawbridgeError ERR_INPUT as loadManifests and askDaemons, ERR_OBJECT for a policy that does not exist
 */
export async function runStatus(io: Io, options: unknown): Promise<ExitCode> {
  const { names, wait, timeout, output, config, ...access } = v.parse(optionsSchema, options);
  const policyOptions = policyOptionsOf(configurationOf(io, config));
  const namespace = await namespaceFor(io, access, true);
  const input = { ...access, filename: [], recursive: false, cluster: true };
  const { manifests } = await loadManifests(io, input);
  const objects = manifests.map(({ object }) => object);
  const index = buildPolicyIndex(storeOf(objects), policyOptions);
  const all = objects.filter(isPolicy);
  const chosen = (names.length === 0 ? all : names.map((name) => policyNamed(all, name, namespace))).map((policy) => {
    const isSelected = selectionOf(index, policy);
    return { policy, selects: podNames(index, isSelected), nodes: nodesOf(index, isSelected) };
  });
  const look = async (): Promise<readonly PolicyStatus[]> => {
    const { answers, away: unasked } = await askDaemons(io.programs, access, QUESTION);
    away = unasked;
    const reports = answers.map(({ node, text }): NodeReport => ({ node, policies: policiesIn(text, node) }));
    return chosen.map(({ policy, selects, nodes }) => policyStatus(policy, selects, nodes, reports));
  };
  let away: readonly AwayNode[] = [];
  let statuses = await look();
  const isDone = (): boolean => statuses.every(({ missing }) => missing.length === 0);
  const longest = wait ? timeout : 0;
  for (let waited = 0; !isDone() && waited < longest; waited += PERIOD_MILLISECONDS) {
    await io.clusters.sleep(PERIOD_MILLISECONDS);
    statuses = await look();
  }
  const text = `${JSON.stringify(statusObject(statuses), null, 2)}\n`;
  io.out.write(output === "json" ? text : statusTable(statuses, styleOf(io.out), io.out.columns));
  tellAway(io, away);
  if (isDone()) return ExitCode.YES;
  for (const status of statuses.filter(({ missing }) => missing.length > 0)) {
    io.err.write(`${printable(missingText(status))}\n`);
  }
  return ExitCode.NO;
}

function policiesIn(text: string, node: string): NodeReport["policies"] {
  const lines = text.split("\n").filter((line) => line !== "");
  const policies = lines.map((line, index) => {
    try {
      return parseReportLine(line);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      throw new DrawbridgeError("ERR_INPUT", `node ${node}:${index + 1}: ${error.message}`);
    }
  });
  return new Map(policies.map((policy) => [policyId(policy), policy]));
}

function policyNamed(all: readonly Policy[], name: string, namespace: string): Policy {
  const found = all.find(({ key }) => key === name) ?? all.find(({ key }) => key === `${namespace}/${name}`);
  if (found !== undefined) return found;
  const keys = new Set(all.map(({ key }) => key));
  const hint = nearestHint(name, keys, "expected a policy such as shop/db");
  throw new DrawbridgeError("ERR_OBJECT", `${JSON.stringify(name)}: no policy of the cluster has this name; ${hint}`);
}

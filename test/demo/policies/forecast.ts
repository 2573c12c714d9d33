import { Buffer } from "node:buffer";
import { conntrackLine } from "../../../cli/node/connections/conntrack_line.ts";
import { systemMachine } from "../../../cli/node/machine/system_machine.ts";
import { readConntrack } from "../../../cli/policy/live/conntrack_text.ts";
import { endName, forecast } from "../../../cli/policy/live/forecast.ts";
import { buildPolicyIndex } from "../../../objects/semantics/policies/policy_index.ts";
import { parseReportLine } from "../../../policyd/policies/status/policy_report.ts";
import type { RawObject } from "../../apiserver/storage.ts";
import { storeOf } from "../../support/evaluate/store.ts";
import type { World } from "../world.ts";

/** A connection that a policy would cut, by `policy dry-run --live`. */
export interface PredictedCut {
  readonly source: string;
  readonly target: string;
  readonly protocol: string;
}

/** Returns the connections of all nodes that a policy would cut, as `policy dry-run --live` does. */
export async function foretellCuts({ cluster }: World, policy: RawObject): Promise<readonly PredictedCut[]> {
  const objects = await cluster.server.objects();
  const index = (all: readonly RawObject[]) => buildPolicyIndex(storeOf(all), {});
  const sides = { before: index(objects), after: index([...objects, policy]) };
  const lines = cluster.nodes.flatMap(({ namespace }) => {
    const found: string[] = [];
    namespace.inside(() =>
      systemMachine(cluster.lab.calls).visitConnections((entry) => found.push(conntrackLine(entry))),
    );
    return found;
  });
  const { connections } = readConntrack([Buffer.from(lines.join(""))], "nodes");
  return forecast(sides, connections).cuts.flatMap((cut) =>
    cut.connections.map(({ source, destination, protocol }) => ({
      source: endName(sides.before, source),
      target: endName(sides.before, destination),
      protocol,
    })),
  );
}

/** Returns the names of the nodes on which a policy is in force, as `policy status` does. */
export function nodesInForce({ cluster }: World, key: string): readonly string[] {
  return cluster.nodes.flatMap((one) => {
    const text = one.namespace.inside(() => systemMachine(cluster.lab.calls).readPolicies(one.files.socket));
    const policies = text.split("\n").slice(0, -1).map(parseReportLine);
    return policies.some((policy) => policy.key === key && policy.inForce === policy.generation) ? [one.name] : [];
  });
}

import path from "node:path";
import process from "node:process";
import { type AttachmentRecord, listAttachments } from "../../../attachment/attachment.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { attachmentElements } from "../../../policyd/node/attachment_elements.ts";
import { POLICY_TABLE } from "../../../policyd/policies/compile/policy_table.ts";
import { serviceElements } from "../../../policyd/services/elements/node_elements.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { install, OURS } from "../contestant.ts";
import { IPERF_ADVICE, isIperfThere, LOADS } from "../iperf.ts";
import { type Row, compared, interleave } from "../row.ts";
import { type Pods, ROUTES, wirePods } from "../scenario/throughput.ts";
import { TABLES } from "../services/ours.ts";
import { type BenchPod, changeTo, namespaceManifests, nodeManifest, podManifest, policyManifest } from "./cluster.ts";
import { type Crowd, crowd } from "./crowd.ts";
import { Ours } from "./ours.ts";
import type { Plan } from "./plan.ts";

const GOAL = { ratioAtLeast: 0.95 } as const;
const NETWORK = "drawbridge";

/** The daemon's default tables, without that of policies. */
const NODE_TABLES = TABLES.filter(({ name }) => name !== POLICY_TABLE.name);

/**
 * Measures the throughput between pods with the node's default tables: without that of policies, with it, and with many
 * policies on the receiver.
 */
export async function throughput(runDirectory: string, plan: Plan): Promise<readonly Row[]> {
  if (!isIperfThere()) {
    process.stderr.write(IPERF_ADVICE);
    return [];
  }
  using noneLab = createLab("bench-none");
  using openLab = createLab("bench-open");
  using manyLab = createLab("bench-many");
  const none = await nodesWith(noneLab, path.join(runDirectory, "none"), crowd(0));
  const open = await nodesWith(openLab, path.join(runDirectory, "open"), crowd(0));
  const many = await nodesWith(manyLab, path.join(runDirectory, "many"), crowd(plan.policiesOnOnePod));
  for (const { node } of none.pods.sides) node.exec("nft", ["delete", "table", POLICY_TABLE.family, POLICY_TABLE.name]);
  const rows = ROUTES.flatMap((route) =>
    LOADS.flatMap(({ name, unit, stretches, measure }) =>
      [open, many].map((ours): Row => {
        const on =
          ({ pods }: Nodes) =>
          () =>
            measure({ ...pods, receiver: pods[route.receiver] });
        const pairs = interleave(plan.throughputPairs * stretches, on(ours), on(none));
        const title = `${name}, ${route.title}, ${ours.count.toLocaleString("en")} policies`;
        return compared(title, unit, "no table of policies", pairs, GOAL);
      }),
    ),
  );
  for (const { ours } of [none, open, many]) for (const one of ours) one[Symbol.dispose]();
  return rows;
}

interface Nodes {
  readonly pods: Pods;
  readonly ours: readonly Ours[];
  readonly count: number;
}

async function nodesWith(lab: Lab, runDirectory: string, many: Crowd): Promise<Nodes> {
  const pods = wirePods(lab, runDirectory, install(OURS, path.join(lab.scratch, "drawbridge")));
  const files = systemFileSystem(lab.calls);
  const records = pods.sides.map(({ directory }) => listAttachments(directory, NETWORK, files).records);
  // The pods as the policies of the crowd name them: the first sends, all others receive.
  const [sender, ...receivers] = records.flat().toSorted((a, b) => roleOf(a) - roleOf(b));
  if (sender === undefined || receivers.length !== 2) throw new Error("the plugin recorded other pods than three");
  const known = new Map<string, BenchPod>([
    [sender.containerId, placed(many.client, sender, 0)],
    ...receivers.map((one, index): [string, BenchPod] => [one.containerId, placed(many.server, one, index + 1)]),
  ]);
  const manifests = [
    ...namespaceManifests(),
    nodeManifest(),
    ...[...known.values(), ...many.pods.slice(2)].map(podManifest),
    ...many.policies.map(policyManifest),
  ];
  const ours: Ours[] = [];
  for (const [index, { node }] of pods.sides.entries()) {
    const local = (records[index] ?? []).map((record) => named(record, known));
    const elements = local.flatMap((record) => [...attachmentElements(record), ...serviceElements(record)]);
    const one = new Ours(node, NODE_TABLES, elements);
    await one.load(manifests.map(changeTo), local);
    ours.push(one);
  }
  return { pods, ours, count: many.policies.length };
}

/** Returns the place of a record in the order, in which the sender comes first. */
function roleOf({ pod }: AttachmentRecord): number {
  return pod?.name === "sender" ? 0 : 1;
}

function placed(pod: BenchPod, { addresses }: AttachmentRecord, index: number): BenchPod {
  const [v4, v6] = addresses.map(({ address }) => formatAddress(address));
  if (v4 === undefined || v6 === undefined) throw new Error("a pod does not have two addresses");
  return { ...pod, name: `${pod.name}-${index}`, address4: v4, address6: v6 };
}

function named(record: AttachmentRecord, known: ReadonlyMap<string, BenchPod>): AttachmentRecord {
  const pod = known.get(record.containerId);
  if (pod === undefined) throw new Error(`nobody knows ${record.containerId}`);
  return { ...record, pod: { namespace: pod.namespace, name: pod.name, uid: "" } };
}

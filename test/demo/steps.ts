import { formatAddress } from "../../kernel/ip/address.ts";
import { createLab } from "../lab/lab.ts";
import { PROTOCOLS } from "../lab/probe/protocol.ts";
import { twoNodes } from "../lab/topology.ts";
import type { BreakageName } from "./breakage.ts";
import { breakWorld } from "./breakage.ts";
import type { Leftovers } from "./leftovers.ts";
import { leftoversOfLab, leftoversOfPods, machineLinks } from "./leftovers.ts";
import type { Difference, Expected, Party, Seen } from "./matrix.ts";
import { compareMatrices, expectedMatrix } from "./matrix.ts";
import { measureQuestions } from "./measure.ts";
import type { Progress } from "./progress.ts";
import type { SameNodeResult } from "./same_node.ts";
import { checkSameNode, sameNodeOnly } from "./same_node.ts";
import { addPods, deletePods, partiesOf } from "./world.ts";

/** Everything the demo measured, as plain data. */
export interface DemoResult {
  /** What `--break` removed. */
  readonly broken: string | undefined;
  readonly pods: readonly PodRow[];
  readonly parties: readonly Party[];
  readonly expected: readonly Expected[];
  readonly seen: readonly Seen[];
  readonly differences: readonly Difference[];
  readonly sameNode: readonly SameNodeResult[];
  readonly leftovers: Leftovers;
  readonly milliseconds: number;
}

export interface PodRow {
  readonly name: string;
  readonly node: string;
  readonly addresses: readonly [string, string];
  readonly addMilliseconds: number;
  readonly delMilliseconds: number | undefined;
}

/**
 * Builds the world, measures it, takes it down and looks for what is left.
 *
 * @throws Error when the kernel or the plugin refuses; the lab is gone then, too
 */
export async function runDemo(breakage: BreakageName | undefined, progress: Progress): Promise<DemoResult> {
  const start = performance.now();
  const linksBefore = machineLinks();
  const { leftovers, ...measured } = await measureInLab(breakage, progress);
  const left = await progress.step("look for what the lab left", () => leftoversOfLab(linksBefore, machineLinks()));
  return { ...measured, leftovers: { ...leftovers, ...left }, milliseconds: performance.now() - start };
}

async function measureInLab(
  breakage: BreakageName | undefined,
  progress: Progress,
): Promise<Omit<DemoResult, "milliseconds">> {
  using lab = createLab("demo");
  const nodes = await progress.step("make two nodes and a router", () => twoNodes(lab));
  const pods = await progress.step("add six pods with the plugin:", (update) => {
    const names: string[] = [];
    return addPods(lab, nodes, ({ name }) => update(`${names.push(name)} ${name}`));
  });
  const world = { nodes, pods };
  const parties = partiesOf(world);
  const expected = expectedMatrix(parties, PROTOCOLS);
  const broken =
    breakage === undefined ? undefined : await progress.step(`break: ${breakage}`, () => breakWorld(world, breakage));
  const seen = await progress.step("send packets from everyone to every pod:", (update) =>
    measureQuestions(lab.calls, world, expected, {
      onProgress: (done) => update(`${done} of ${expected.length} flows`),
    }),
  );
  const sameNode = await progress.step("send same-node packets in each br_netfilter state", () =>
    checkSameNode(lab.calls, world, sameNodeOnly(world, expected)),
  );
  const deleted = await progress.step("delete the pods with the plugin", () => deletePods(world));
  return {
    broken,
    pods: pods.map(({ name, node, addresses, addMilliseconds }) => ({
      name,
      node,
      addresses: [formatAddress(addresses[4]), formatAddress(addresses[6])],
      addMilliseconds,
      delMilliseconds: deleted.get(name),
    })),
    parties,
    expected,
    seen,
    differences: compareMatrices(expected, seen),
    sameNode,
    leftovers: leftoversOfPods(world),
  };
}

/** The addresses more than one pod holds (POD-01). */
export function sharedAddresses(pods: readonly PodRow[]): readonly string[] {
  const all = pods.flatMap(({ addresses }) => addresses);
  return all.filter((address, i) => all.indexOf(address) !== i);
}

/** Whether everything was as expected: addresses, every cell, same-node checks, no redirect followed, nothing left. */
export function isAsExpected(result: DemoResult): boolean {
  return (
    sharedAddresses(result.pods).length === 0 &&
    result.differences.length === 0 &&
    result.sameNode.every(({ differences, followed }) => differences.length === 0 && followed.length === 0) &&
    Object.values(result.leftovers).every((names) => names.length === 0)
  );
}

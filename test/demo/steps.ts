import { formatAddress } from "../../kernel/ip/address.ts";
import { Cluster } from "../lab/cluster/cluster.ts";
import { PROTOCOLS } from "../lab/probe/protocol.ts";
import { type Breakage, type BreakageName, breakWorld } from "./breakage.ts";
import { type DaemonRow, daemonRows, isDaemonGood, stopDaemons } from "./daemons.ts";
import { type FlushResult, flushRuleset, listRuleset } from "./harm.ts";
import { type Leftovers, leftoversOfLab, leftoversOfPods, machineLinks } from "./leftovers.ts";
import { compareMatrices, type Difference, type Expected, expectedMatrix, type Party, type Seen } from "./matrix.ts";
import { measureQuestions } from "./measure.ts";
import { cutLiveFlows, type CutResult, isCut, isPredicted, isInForceEverywhere } from "./policies/cut.ts";
import { checkPolicies, type PoliciesResult, publishPolicies } from "./policies/result.ts";
import type { Progress } from "./progress.ts";
import { checkSameNode, sameNodeOnly, type SameNodeResult } from "./same_node.ts";
import { publishServices } from "./services/publish.ts";
import { checkServices, type ServicesResult } from "./services/result.ts";
import { isSpoofStopped, measureSpoof, type SpoofResult } from "./spoof.ts";
import { addPods, detachPods, nodeOf, partiesOf, startNodes, type World } from "./world.ts";

/** Everything that the demo measured, as plain data. */
export interface DemoResult {
  /** The thing that `--break` removed. */
  readonly broken: string | undefined;
  readonly daemons: readonly DaemonRow[];
  /** The daemons' requests that the API server has refused, in words. */
  readonly refused: readonly string[];
  readonly pods: readonly PodRow[];
  readonly parties: readonly Party[];
  readonly expected: readonly Expected[];
  readonly seen: readonly Seen[];
  readonly differences: readonly Difference[];
  readonly services: ServicesResult;
  readonly policies: PoliciesResult;
  readonly cut: CutResult;
  readonly sameNode: readonly SameNodeResult[];
  readonly spoof: SpoofResult;
  readonly harm: HarmResult;
  readonly leftovers: Leftovers;
  readonly milliseconds: number;
}

/** The effect of a flushed ruleset, and the results once it was back. */
export interface HarmResult extends FlushResult {
  readonly flows: number;
  readonly differences: readonly Difference[];
  readonly services: ServicesResult;
  readonly spoof: SpoofResult;
}

export interface PodRow {
  readonly name: string;
  readonly node: string;
  readonly addresses: readonly [string, string];
  readonly addMilliseconds: number;
  readonly delMilliseconds: number | undefined;
}

/**
 * Builds the world, measures it, takes it down and checks what is left.
 *
 * @throws Error when the kernel or the plugin refuses; the lab is gone then as well
 */
export async function runDemo(breakage: BreakageName | undefined, progress: Progress): Promise<DemoResult> {
  const start = performance.now();
  const linksBefore = machineLinks();
  const { leftovers, ...measured } = await measureInLab(breakage, progress);
  const left = await progress.step("check what the lab left", () => leftoversOfLab(linksBefore, machineLinks()));
  return { ...measured, leftovers: { ...leftovers, ...left }, milliseconds: performance.now() - start };
}

async function measureInLab(
  breakage: BreakageName | undefined,
  progress: Progress,
): Promise<Omit<DemoResult, "milliseconds">> {
  const cluster = await progress.step("start an API server and a router", () => Cluster.start("demo"));
  try {
    await progress.step("start policyd on two nodes", () => startNodes(cluster));
    const pods = await progress.step("create six pods:", (update) => {
      const names: string[] = [];
      return addPods(cluster, (name) => update(`${names.push(name)} ${name}`));
    });
    return await measureWorld({ cluster, pods }, breakage, progress);
  } finally {
    await cluster.stop();
  }
}

async function measureWorld(
  world: World,
  breakage: BreakageName | undefined,
  progress: Progress,
): Promise<Omit<DemoResult, "milliseconds">> {
  const { calls } = world.cluster.lab;
  const node1 = nodeOf(world, "node1");
  const published = await progress.step("publish Services of each kind", () => publishServices(world));
  const daemons = daemonRows(world.cluster);
  const whole = listRuleset(node1);
  const parties = partiesOf(world);
  const expected = expectedMatrix(parties, PROTOCOLS);
  const isOfPolicies = breakage === "policy";
  const breakIt = async (): Promise<Breakage | undefined> =>
    breakage && (await progress.step(`break: ${breakage}`, () => breakWorld(world, breakage)));
  let broken = isOfPolicies ? undefined : await breakIt();
  const measureAll = (update: (detail: string) => void): Promise<readonly Seen[]> =>
    measureQuestions(calls, world, expected, {
      onProgress: (done) => update(`${done} of ${expected.length} flows`),
    });
  const seen = await progress.step("send packets from everyone to every pod:", measureAll);
  const measureServices = (update: (detail: string) => void): Promise<ServicesResult> =>
    checkServices(calls, world, published, (done) => update(`${done} connections`));
  const services = await progress.step("connect to every Service from pods, a node and outside:", measureServices);
  const sameNode = await progress.step("send same-node packets in each br_netfilter state", () =>
    checkSameNode(calls, world, sameNodeOnly(world, expected)),
  );
  const spoof = await progress.step("send packets with another pod's address", () => measureSpoof(world));
  if (broken !== undefined) await progress.step("let policyd restore it", broken.resume);
  const publishedPolicies = await progress.step("add a policy for each pod", () => publishPolicies(world, expected));
  if (isOfPolicies) broken = await breakIt();
  const policies = await progress.step("send packets from everyone to every pod again:", (update) =>
    checkPolicies(calls, world, publishedPolicies, (done) => update(`${done} of ${expected.length} flows`)),
  );
  if (isOfPolicies && broken !== undefined) await progress.step("let policyd restore it", broken.resume);
  const cut = await progress.step("deny flows that are under way, and allow them again:", (update) =>
    cutLiveFlows(world, update),
  );
  const harm = await progress.step("flush node1's ruleset, and send it all again:", async (update) => {
    const flush = await flushRuleset(node1, whole);
    const again = await measureAll(update);
    const differences = compareMatrices(expected, again);
    const servicesAgain = await measureServices(update);
    const spoofAgain = await measureSpoof(world);
    return { ...flush, flows: again.length, differences, services: servicesAgain, spoof: spoofAgain };
  });
  const detached = await progress.step("detach the pods", () => detachPods(world));
  const leftovers = leftoversOfPods(world);
  return {
    broken: broken?.description,
    daemons,
    pods: world.pods.map(({ name, node, addresses, addMilliseconds }) => ({
      name,
      node,
      addresses: [formatAddress(addresses[4]), formatAddress(addresses[6])],
      addMilliseconds,
      delMilliseconds: detached.get(name),
    })),
    refused: await world.cluster.refused(),
    parties,
    expected,
    seen,
    differences: compareMatrices(expected, seen),
    services,
    policies,
    cut,
    sameNode,
    spoof,
    harm,
    leftovers: { ...leftovers, daemons: await stopDaemons(world.cluster) },
  };
}

/** Returns the addresses that more than one pod holds (POD-01). */
export function sharedAddresses(pods: readonly PodRow[]): readonly string[] {
  const all = pods.flatMap(({ addresses }) => addresses);
  return all.filter((address, i) => all.indexOf(address) !== i);
}

/** Whether everything was as expected: addresses, daemons, every cell, no redirect followed, no spoof, nothing left. */
export function isAsExpected(result: DemoResult): boolean {
  return (
    sharedAddresses(result.pods).length === 0 &&
    result.differences.length === 0 &&
    result.services.differences.length === 0 &&
    result.policies.differences.length === 0 &&
    isCut(result.cut) &&
    isPredicted(result.cut) &&
    isInForceEverywhere(result.cut) &&
    result.daemons.every(isDaemonGood) &&
    result.refused.length === 0 &&
    result.sameNode.every(({ differences, followed }) => differences.length === 0 && followed.length === 0) &&
    isSpoofStopped(result.spoof) &&
    isHarmMended(result.harm) &&
    Object.values(result.leftovers).every((names) => names.length === 0)
  );
}

/** Whether the tables came back, and with them everything that passes through them. */
export function isHarmMended({ milliseconds, differences, services, spoof }: HarmResult): boolean {
  return (
    milliseconds !== undefined && differences.length === 0 && services.differences.length === 0 && isSpoofStopped(spoof)
  );
}

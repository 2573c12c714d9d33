import { formatAddress } from "../../kernel/ip/address.ts";
import { Cluster } from "../lab/cluster/cluster.ts";
import { daemonChecks, leftoversOfLab, leftoversOfPods, machineLinks, noneOf, spoofCheck } from "./checks.ts";
import { EVERYTHING, flowCheck, measureFlows } from "./flows.ts";
import { type Breakage, type BreakageName, breakWorld, flushRuleset, listRuleset } from "./harm.ts";
import { allowedByPolicies, cutLiveFlows, publishPolicies } from "./policies.ts";
import type { Progress } from "./progress.ts";
import type { Chart, DemoResult } from "./result.ts";
import { measureServices, publishServices } from "./services.ts";
import { addPods, detachPods, nodeOf, startNodes, type World } from "./world.ts";

/**
 * Builds the world, measures it, takes it down and checks what is left.
 *
 * @throws Error when the kernel or the plugin refuses; the lab is gone then as well
 */
export async function runDemo(breakage: BreakageName | undefined, progress: Progress): Promise<DemoResult> {
  const start = performance.now();
  const linksBefore = machineLinks();
  const measured = await measureInLab(breakage, progress);
  const left = await progress.step("check what the lab left", () => leftoversOfLab(linksBefore));
  return { ...measured, checks: [...measured.checks, left], milliseconds: performance.now() - start };
}

type Measured = Omit<DemoResult, "milliseconds">;

async function measureInLab(breakage: BreakageName | undefined, progress: Progress): Promise<Measured> {
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

async function measureWorld(world: World, breakage: BreakageName | undefined, progress: Progress): Promise<Measured> {
  const node1 = nodeOf(world, "node1");
  const frontends = await progress.step("publish Services of each kind", () => publishServices(world));
  const daemons = daemonChecks(world);
  const whole = listRuleset(node1);
  let broken: Breakage | undefined;
  /** Runs measurements while the thing that `--break` names is removed, if it concerns them. */
  const whileBroken = async (isConcerned: boolean, action: () => Promise<void>): Promise<void> => {
    if (breakage === undefined || !isConcerned) return await action();
    broken = await progress.step(`break: ${breakage}`, () => breakWorld(world, breakage));
    await action();
    await progress.step("let policyd restore it", broken.resume);
  };
  const measureAll = (update: (detail: string) => void): Promise<readonly Chart[]> =>
    measureFlows(
      world,
      "",
      () => EVERYTHING,
      (done) => update(`${done} flows`),
    );
  const askServices = (update: (detail: string) => void) =>
    measureServices(world, frontends, (done) => update(`${done} connections`));
  const charts: Chart[] = [];
  const checks = [...daemons];
  await whileBroken(breakage !== "policy", async () => {
    const flows = await progress.step("send packets from everyone to every pod:", measureAll);
    const services = await progress.step("connect to every Service from pods, a node and outside:", askServices);
    const spoof = await progress.step("send packets with another pod's address", () => spoofCheck(world));
    charts.push(...flows, ...services.charts);
    checks.push(flowCheck("", flows), services.check, spoof);
  });
  const policies = await progress.step("add a policy for each pod", () => publishPolicies(world));
  await whileBroken(breakage === "policy", async () => {
    const flows = await progress.step("send packets from everyone to every pod again:", (update) =>
      measureFlows(world, " with policies", allowedByPolicies, (done) => update(`${done} flows`)),
    );
    charts.push(...flows);
    checks.push(flowCheck("with policies ", flows));
  });
  checks.push(
    await progress.step("deny flows that are under way, and allow them again:", (update) =>
      cutLiveFlows(world, update),
    ),
  );
  await progress.step("flush node1's ruleset, and send it all again:", async (update) => {
    const restored = await flushRuleset(node1, whole);
    const flows = flowCheck("after that ", await measureAll(update));
    const services = await askServices(update);
    const spoof = await spoofCheck(world);
    checks.push(restored, flows, services.check, spoof);
  });
  const detached = await progress.step("detach the pods", () => detachPods(world));
  const addresses = world.pods.flatMap((pod) => Object.values(pod.addresses));
  const shared = addresses.filter((address, i) => addresses.indexOf(address) !== i);
  const refused = await world.cluster.refused();
  return {
    broken: broken?.description,
    pods: world.pods.map(({ name, node, addresses: own, addMilliseconds }) => [
      name,
      node,
      formatAddress(own[4]),
      formatAddress(own[6]),
      addMilliseconds.toFixed(0),
      detached.get(name)?.toFixed(0) ?? "",
    ]),
    charts,
    policies,
    checks: [
      ...checks,
      noneOf(`of ${addresses.length} addresses of pods are held twice`, shared.map(formatAddress)),
      noneOf("of the daemons' requests refused by the API server", refused),
      ...(await leftoversOfPods(world)),
    ],
  };
}

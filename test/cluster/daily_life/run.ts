import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import os from "node:os";
import path from "node:path";
import { importImage, installAddOn } from "../addon.ts";
import { kubectl, makeCluster, type Materials, removeCluster } from "../cluster.ts";
import { writeArchive } from "../images/archive.ts";
import { makeMaterials } from "../materials.ts";
import { startInside } from "../node/processes.ts";
import { CACHE, STATE } from "../place.ts";
import { buildLoad } from "../programs.ts";
import { ProgramError, until } from "../run.ts";
import type { Settings } from "../settings.ts";
import type { RunningNode } from "../state.ts";
import {
  generatorArguments,
  LEAVING,
  LOAD_DIRECTORY,
  LOAD_IMAGE,
  NAMESPACE,
  podGenerators,
  PORT,
  servers,
} from "./objects.ts";
import {
  countSteps,
  formatFailures,
  formatSteps,
  isGood,
  type NamedRecord,
  readRecords,
  type StepCount,
  type StepWindow,
} from "./records.ts";
import { makeOtherBuild } from "./other_build.ts";
import { type Step, STEPS } from "./steps.ts";
import { inNamespace, sleep, waitForServers, type World } from "./world.ts";

const RESULTS = path.join(CACHE, "daily-life");
/** The seconds between two steps, in which late consequences count for the first. */
const SETTLE = LEAVING + 2;

/** Options of a run. */
export interface DailyLifeOptions {
  /** Only the steps whose names match this expression. */
  readonly step?: string;
  /** The revision that the add-on is upgraded to, and back from; this project with another schema without one. */
  readonly revision?: string;
  readonly settings: Settings;
}

/**
 * Makes a cluster, carries out one step after the other while connections are made on every node, and prints the counts
 * of each.
 *
 * @returns whether the only failed connections are those that the API could not know about
 */
export async function runDailyLife(
  { step, revision, settings }: DailyLifeOptions,
  say: (line: string) => void,
): Promise<boolean> {
  rmSync(RESULTS, { recursive: true, force: true });
  mkdirSync(RESULTS, { recursive: true });
  const materials = makeMaterials(say);
  const program = buildLoad(say);
  const image = writeLoadImage(program);
  const other = makeOtherBuild(revision);
  await removeCluster();
  try {
    const cluster = await makeCluster(settings, { ...materials, images: [...materials.images, image] }, say);
    installAddOn(cluster, materials, say);
    const world = await startLoad({ cluster, materials, other }, program, image);
    say("connections are made on every node");
    const chosen = STEPS.filter(({ name }) => new RegExp(step ?? "").test(name));
    const windows: StepWindow[] = [];
    for (const one of chosen) {
      windows.push(await doStep(one, world));
      const counts = countSteps(windows, collect(world));
      writeResults(counts);
      const last = counts.at(-1);
      if (last !== undefined) tell(last, say);
    }
    // By now, connections that began in the last step have ended or timed out.
    await sleep(SETTLE);
    return conclude(windows, collect(world));
  } finally {
    await removeCluster();
  }
}

async function doStep({ name, isExpected, do: act }: Step, world: World): Promise<StepWindow> {
  const from = Date.now();
  const known = { name, from, ...(isExpected === undefined ? {} : { isExpected }) };
  try {
    const excuse = (await act(world)) ?? {};
    await sleep(SETTLE);
    return { ...known, to: Date.now(), ...excuse };
  } catch (error) {
    // The steps after it are still useful.
    if (!(error instanceof ProgramError)) throw error;
    return { ...known, to: Date.now(), error: error.message };
  }
}

function writeLoadImage(program: string): string {
  const root = mkdtempSync(path.join(os.tmpdir(), "drawbridge-load-"));
  const archive = path.join(CACHE, "images", "load.tar");
  try {
    copyFileSync(program, path.join(root, "load"));
    chmodSync(root, 0o755);
    writeArchive(archive, root, [LOAD_IMAGE], { entrypoint: ["/load"] });
  } finally {
    rmSync(root, { recursive: true, force: true });
  }
  return archive;
}

async function startLoad(
  { cluster, materials, other }: Pick<World, "cluster" | "other"> & { readonly materials: Materials },
  program: string,
  image: string,
): Promise<World> {
  importImage(cluster, materials, image);
  const [first] = cluster.nodes;
  kubectl(materials, ["apply", "-f", "-"], list(servers(first?.name ?? "")));
  const addressesOf = (name: string): readonly string[] =>
    kubectl(materials, ["-n", NAMESPACE, "get", "service", name, "--output=jsonpath={.spec.clusterIPs[*]}"])
      .split(" ")
      .map((address) => (address.includes(":") ? `[${address}]:${PORT}` : `${address}:${PORT}`));
  const fresh = addressesOf("web");
  const kept = [...fresh, ...addressesOf("steady")];
  const startGenerator = ({ first: inside, name, directory }: RunningNode): void => {
    mkdirSync(path.join(directory, LOAD_DIRECTORY), { recursive: true });
    startInside(inside, [program, ...generatorArguments("node", fresh, kept)], path.join(STATE, `${name}-load.log`));
  };
  const world: World = {
    cluster,
    materials: { ...materials, images: [...materials.images, image] },
    other,
    startGenerator,
  };
  waitForServers(world);
  kubectl(materials, ["apply", "-f", "-"], list([podGenerators(fresh, kept)]));
  inNamespace(world, "rollout", "status", "daemonset/load", "--timeout=120s");
  for (const node of cluster.nodes) startGenerator(node);
  await until(
    "the first connections",
    () =>
      collect(world).filter(({ kind }) => kind === "second").length >= 2 * cluster.nodes.length ? true : undefined,
    30,
  );
  return world;
}

function list(items: readonly object[]): string {
  return JSON.stringify({ apiVersion: "v1", kind: "List", items });
}

/** Reads the records of all generators so far. */
function collect({ cluster }: World): readonly NamedRecord[] {
  return cluster.nodes.flatMap(({ name, directory }) =>
    ["node", "pod"].flatMap((kind) => {
      const file = path.join(directory, LOAD_DIRECTORY, `${kind}.ndjson`);
      return existsSync(file) ? readRecords(`${name} ${kind}`, readFileSync(file, "utf8")) : [];
    }),
  );
}

function tell(step: StepCount, say: (line: string) => void): void {
  const { window, attempts, failures, late } = step;
  if (window.error !== undefined) say(`${window.name}: ${window.error}`);
  say(`${window.name}: ${attempts} connections, ${failures.length} failed or lost, ${late.length} late`);
  for (const line of formatFailures(step).slice(0, 12)) console.log(`           ${line}`);
}

function writeResults(steps: readonly StepCount[]): void {
  writeFileSync(path.join(RESULTS, "table.md"), `${formatSteps(steps)}\n`);
  writeFileSync(path.join(RESULTS, "steps.json"), JSON.stringify(steps, undefined, 1));
}

function conclude(windows: readonly StepWindow[], records: readonly NamedRecord[]): boolean {
  const steps = countSteps(windows, records);
  writeResults(steps);
  console.log(`\n${formatSteps(steps)}`);
  for (const step of steps.filter(({ failures }) => failures.length > 0)) {
    console.log(`\n${step.window.name}:`);
    for (const line of formatFailures(step)) console.log(`  ${line}`);
  }
  return steps.every(isGood);
}

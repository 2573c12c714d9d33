import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, statSync } from "node:fs";
import path from "node:path";
import { currentOwner, isAlive, ownedName, ownerOfName } from "../../../lab/owner.ts";

const ROOT = "/sys/fs/cgroup";
/** The files of the processor's time: of version 1, where each hierarchy is a directory, and of version 2. */
const NANOSECONDS_FILE = "cpuacct.usage";
const STATISTICS_FILE = "cpu.stat";

/**
 * A cgroup that contains a runtime and its pods in parts of their own, and counts the processor time of all of them.
 * The processes of a pod have other parents than the runtime, so that no waiting parent learns what they have used.
 */
export class PodCgroup implements Disposable {
  /** The path below the root of each hierarchy. */
  readonly path: string;
  /** The file to which a process writes its ID in order to join the runtime's part. */
  readonly runtimeProcesses: string;
  readonly #hierarchy: string;

  /**
   * Makes the cgroup, after removing those of benchmarks that were killed.
   *
   * @param name of the cgroup
   */
  constructor(name: string) {
    removeLeftOver();
    this.path = `/${ownedName(currentOwner(), name)}`;
    const isUnified = existsSync(path.join(ROOT, "cgroup.controllers"));
    this.#hierarchy = isUnified ? ROOT : path.join(ROOT, "cpuacct");
    const runtime = path.join(this.#hierarchy, this.path, "runtime");
    mkdirSync(runtime, { recursive: true });
    this.runtimeProcesses = path.join(runtime, "cgroup.procs");
  }

  /** The cgroup that pods get as their parent. */
  get podsParent(): string {
    return `${this.path}/pods`;
  }

  /** Returns the milliseconds of the processor so far, of all processes that are or were in the cgroup. */
  processorMilliseconds(): number {
    const directory = path.join(this.#hierarchy, this.path);
    const nanoseconds = path.join(directory, NANOSECONDS_FILE);
    if (existsSync(nanoseconds)) return Number(readFileSync(nanoseconds, "latin1")) / 1e6;
    const statistics = readFileSync(path.join(directory, STATISTICS_FILE), "latin1");
    return Number(/^usage_usec (\d+)$/m.exec(statistics)?.[1]) / 1000;
  }

  /** Removes the cgroup from every hierarchy; its processes have ended. */
  [Symbol.dispose](): void {
    for (const hierarchy of hierarchies()) removeTree(path.join(hierarchy, this.path));
  }
}

function hierarchies(): readonly string[] {
  return [ROOT, ...readdirSync(ROOT).map((name) => path.join(ROOT, name))].filter((one) => statSync(one).isDirectory());
}

function removeLeftOver(): void {
  for (const hierarchy of hierarchies()) {
    for (const name of readdirSync(hierarchy)) {
      const owner = ownerOfName(name);
      if (owner !== undefined && !isAlive(owner)) removeTree(path.join(hierarchy, name));
    }
  }
}

/** Removes the directories of a tree of cgroups. Their files cannot be removed, and need not be. */
function removeTree(directory: string): void {
  if (!existsSync(directory)) return;
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) removeTree(path.join(directory, entry.name));
  }
  rmdirSync(directory);
}

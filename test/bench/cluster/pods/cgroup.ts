import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, statSync } from "node:fs";
import path from "node:path";
import { currentOwner, isAlive, ownedName, ownerOfName } from "../../../lab/owner.ts";

const ROOT = "/sys/fs/cgroup";
/** Files of version 1, where each hierarchy is a directory, and of version 2. */
const NANOSECONDS_FILE = "cpuacct.usage";
const STATISTICS_FILE = "cpu.stat";

/**
 * A cgroup that has a runtime and its pods in parts of its own, which counts the processor time of all of them. The
 * processes of a pod have other parents than the runtime, so that nobody who waits learns what they have used.
 */
export class PodCgroup implements Disposable {
  /** Seen from the root of each hierarchy. */
  readonly path: string;
  /** The file to which a process writes its ID in order to join the runtime's part. */
  readonly runtimeProcesses: string;
  readonly #hierarchy: string;

  /**
   * Makes it, after removing those of benchmarks that were killed.
   *
   * @param name what the cgroup is for
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

  /** Milliseconds of the processor so far, of all processes that are or were in here. */
  processorMilliseconds(): number {
    const directory = path.join(this.#hierarchy, this.path);
    const nanoseconds = path.join(directory, NANOSECONDS_FILE);
    if (existsSync(nanoseconds)) return Number(readFileSync(nanoseconds, "latin1")) / 1e6;
    const statistics = readFileSync(path.join(directory, STATISTICS_FILE), "latin1");
    return Number(/^usage_usec (\d+)$/m.exec(statistics)?.[1]) / 1000;
  }

  /** Removes it from every hierarchy; its processes have ended. */
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

/** The files of a cgroup cannot be removed, and need not be. */
function removeTree(directory: string): void {
  if (!existsSync(directory)) return;
  for (const entry of readdirSync(directory, { withFileTypes: true })) {
    if (entry.isDirectory()) removeTree(path.join(directory, entry.name));
  }
  rmdirSync(directory);
}

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** The directories where an installed Drawbridge, or a container runtime that calls it, keeps files. */
const DIRECTORIES = ["/etc/cni", "/etc/drawbridge", "/opt/cni", "/run/drawbridge", "/var/lib/cni"];
const SETTINGS = "/proc/sys/net";
/**
 * Matches files, links and tables that Drawbridge makes. Other programs of the machine may make theirs during a run.
 */
const OURS = /drawbridge|cni0|^link dbv/;
/** A counter among the settings, which changes by itself. */
const COUNTED = "netfilter/nf_conntrack_count";

/**
 * The state that a test could leave on the machine itself, each part under a name that people understand ("link cni0").
 */
export type MachineState = ReadonlyMap<string, string>;

/**
 * Reads the state that a Drawbridge on this machine itself would leave: files in the places of an installation, links
 * and tables; and all network settings of this process's own network namespace.
 */
export function machineState(): MachineState {
  const files = DIRECTORIES.flatMap((directory) => [
    ...(existsSync(directory) ? [directory] : []),
    ...namesBelow(directory).map((name) => path.join(directory, name)),
  ]);
  const made = [
    ...files.map((file) => `file ${file}`),
    ...namesIn("/sys/class/net").map((name) => `link ${name}`),
    ...tables(),
  ];
  const settings = namesBelow(SETTINGS).filter((name) => name !== COUNTED);
  return new Map([
    ...made.filter((name) => OURS.test(name)).map((name) => [name, ""] as const),
    ...settings.map((name) => [`setting ${name}`, valueOf(path.join(SETTINGS, name))] as const),
  ]);
}

/**
 * Returns the differences between two states, one line each. A setting that exists only in one of them does not count,
 * since loading a module adds its settings.
 */
export function machineChanges(before: MachineState, after: MachineState): readonly string[] {
  const names = new Set([...before.keys(), ...after.keys()]);
  return [...names].flatMap((name) => {
    const [old, now] = [before.get(name), after.get(name)];
    if (old === now) return [];
    if (old !== undefined && now !== undefined) return [`${name}: ${now}, before: ${old}`];
    if (name.startsWith("setting ")) return [];
    return [`${name}: ${now === undefined ? "gone" : "new"}`];
  });
}

function tables(): readonly string[] {
  const { status, stdout } = spawnSync("nft", ["list", "tables"], { encoding: "utf8" });
  return status === 0 ? stdout.split("\n").filter((line) => line !== "") : [];
}

function namesIn(directory: string): readonly string[] {
  return existsSync(directory) ? readdirSync(directory) : [];
}

function namesBelow(directory: string): readonly string[] {
  return existsSync(directory) ? readdirSync(directory, { recursive: true, encoding: "utf8" }) : [];
}

/** Returns the value of a setting; "" for directories and for settings that can only be written. */
function valueOf(file: string): string {
  try {
    return readFileSync(file, "latin1").trim();
  } catch {
    return "";
  }
}

import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";

/** Where an installed Drawbridge, or a container runtime that calls it, keeps files. */
const DIRECTORIES = [
  "/etc/cni",
  "/etc/drawbridge",
  "/opt/cni",
  "/run/drawbridge",
  "/run/drawbridge-plugin",
  "/var/lib/cni",
];
const SETTINGS = "/proc/sys/net";

/** Things that a test could leave on the machine itself, each by a name that people understand ("link cni0"). */
export type MachineState = ReadonlyMap<string, string>;

/**
 * Reads the files in the places of an installation, and the links, nftables' tables and network settings of this process's own
 * network namespace.
 */
export function machineState(): MachineState {
  const files = DIRECTORIES.flatMap((directory) => [
    ...(existsSync(directory) ? [directory] : []),
    ...namesBelow(directory).map((name) => path.join(directory, name)),
  ]);
  return new Map([
    ...files.map((file) => [`file ${file}`, ""] as const),
    ...namesIn("/sys/class/net").map((name) => [`link ${name}`, ""] as const),
    ...tables().map((table) => [table, ""] as const),
    ...namesBelow(SETTINGS).map((name) => [`setting ${name}`, valueOf(path.join(SETTINGS, name))] as const),
  ]);
}

/**
 * The differences between two states, a line each. A setting that only one of them has does not count: loading a module adds its
 * settings.
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

/** Some settings can only be written, and directories have no value. */
function valueOf(file: string): string {
  try {
    return readFileSync(file, "latin1").trim();
  } catch {
    return "";
  }
}

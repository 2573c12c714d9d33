import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import * as v from "valibot";
import { CACHE } from "../place.ts";
import { differencesOf, type Inventory, readMachine } from "./machine.ts";

const FILE = path.join(CACHE, "machine_before.json");
/** A directory that libmount makes whenever mount(8) runs, as for the nodes' mounts. */
const MOUNT_DIRECTORY = "/run/mount";
const BEFORE = v.object({ boot: v.string(), inventory: v.record(v.string(), v.array(v.string())) });

/**
 * Records the machine's state before a cluster is made. The record of an earlier run stays if its cluster was never
 * taken down: the machine must then return to the state before that one.
 */
export function rememberMachine(): void {
  if (readBefore() !== undefined) return;
  mkdirSync(CACHE, { recursive: true });
  writeFileSync(`${FILE}.new`, JSON.stringify({ boot: bootId(), inventory: readMachine() }));
  renameSync(`${FILE}.new`, FILE);
}

/**
 * Compares the machine with the record from before the cluster, removes the record, and prints the differences.
 *
 * @returns whether there are none, or no record
 */
export function checkMachine(say: (line: string) => void): boolean {
  const before = readBefore();
  if (before === undefined) return true;
  rmSync(FILE, { force: true });
  if (before["files"]?.includes(MOUNT_DIRECTORY) !== true) removeEmpty(MOUNT_DIRECTORY);
  const now = readMachine();
  const differences = Object.keys(now).flatMap((kind) =>
    differencesOf(kind, before, now).map((line) => `${kind}: ${line}`),
  );
  if (differences.length === 0) say("the machine is as it was before the cluster");
  else say(["the machine differs from what it was before the cluster:", ...differences].join("\n         "));
  return differences.length === 0;
}

function removeEmpty(directory: string): void {
  if (existsSync(directory) && readdirSync(directory).length === 0) rmdirSync(directory);
}

/** Returns the record; undefined if there is none since the machine started. */
function readBefore(): Inventory | undefined {
  if (!existsSync(FILE)) return undefined;
  const { boot, inventory } = v.parse(BEFORE, JSON.parse(readFileSync(FILE, "utf8")));
  return boot === bootId() ? inventory : undefined;
}

function bootId(): string {
  return readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
}

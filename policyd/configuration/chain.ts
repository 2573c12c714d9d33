import { Buffer } from "node:buffer";
import * as v from "valibot";
import { IPAM, LOOPBACK_PLUGIN, PLUGIN } from "../../cni/executables.ts";

const MOST_ENTRIES = 16;
/** Bytes of JSON. */
const LARGEST_ENTRY = 16 * 1024;
const DEEPEST = 32;
const OURS: readonly string[] = [PLUGIN, IPAM, LOOPBACK_PLUGIN];
/** Keys that runtimes set themselves (CNI specification, section 1). */
const OF_RUNTIMES = ["cniVersion", "name", "prevResult", "runtimeConfig"];

const ENTRY = 'an object with the type of a plugin, such as { type: "portmap", capabilities: { portMappings: true } }';
const TYPE = "the file name of a plugin: letters, digits, dots, hyphens and underscores, at most 128";

const entry = v.pipe(
  v.looseObject(
    {
      type: v.pipe(
        v.string(TYPE),
        v.check(isPluginName, TYPE),
        v.check((type) => !OURS.includes(type), "the plugin of another program; ours is in the list already"),
      ),
    },
    ENTRY,
  ),
  v.check(
    (value) => !Object.keys(value).some((key) => OF_RUNTIMES.includes(key) || key.startsWith("cni.dev/")),
    `none of ${OF_RUNTIMES.join(", ")} and cni.dev/*, which runtimes set themselves`,
  ),
  v.check(
    (value) => isPlainJson(value, DEEPEST),
    `JSON of at most ${DEEPEST} levels whose whole numbers are below 2^53; write larger ones as text`,
  ),
  v.check(
    (value) => !isPlainJson(value, DEEPEST) || Buffer.byteLength(JSON.stringify(value)) <= LARGEST_ENTRY,
    `an entry of at most ${LARGEST_ENTRY} bytes`,
  ),
);

/** The entries that `cniChain` adds to the network configuration list. */
export const chain = v.pipe(
  v.array(entry, "a list of entries for the network configuration list"),
  v.maxLength(MOST_ENTRIES, `at most ${MOST_ENTRIES} entries`),
  v.check(
    (entries) => new Set(entries.map(({ type }) => type)).size === entries.length,
    "entries of different types; give one entry all settings of its plugin",
  ),
);

/** Returns whether a text can be the name of a file that a runtime executes or reads. */
export function isPluginName(text: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(text);
}

/** Returns whether a value survives being written and read as JSON unchanged. */
function isPlainJson(value: unknown, depth: number): boolean {
  if (depth === 0) return false;
  if (typeof value === "number") return Math.abs(value) <= Number.MAX_SAFE_INTEGER && !Object.is(value, -0);
  if (value === null || typeof value === "string" || typeof value === "boolean") return true;
  if (Array.isArray(value)) return value.every((inner) => isPlainJson(inner, depth - 1));
  return typeof value === "object" && Object.values(value).every((inner) => isPlainJson(inner, depth - 1));
}

import { isDeepStrictEqual } from "node:util";
import { PLUGIN } from "../../cni/executables.ts";
import { isObject } from "../../cni/json.ts";
import { type JsonObject, type ListEntry, type NetworkList, rawOf } from "./list_text.ts";

/** The part of a network configuration list that is ours. */
export interface OwnPart {
  readonly name: string;
  readonly cniVersion: string;
  readonly cniVersions: readonly string[];
  /** The entry of our plugin. */
  readonly entry: JsonObject;
  /** The administrator's entries, which follow it (`cniChain`). */
  readonly chain: readonly JsonObject[];
}

/** A list with our part in place and everything else unchanged. */
export interface MergedList {
  /** The text of the file; one character for each byte. */
  readonly text: string;
  /** Whether the present list has our part already. */
  readonly isInPlace: boolean;
  /** Our part in the present list: its name, its versions and our entries. */
  readonly found: readonly unknown[];
  /** Our desired part, in the same order. */
  readonly desired: readonly unknown[];
  /** The types of all entries but ours, without repetition. */
  readonly others: readonly string[];
  /** Types of `chain` that are omitted because another program has added an entry of that type. */
  readonly taken: readonly string[];
  /** Capabilities that our entry leaves to another entry of the list. */
  readonly yielded: readonly string[];
}

/**
 * Marks the entries of `cniChain`. The mark is inside the entry so that it stays with it when the list is reordered.
 * Runtimes pass it to the plugin, which ignores unknown fields.
 */
export const CHAIN_MARK = "drawbridge.dev/from";
export const CHAIN_SOURCE = "cniChain";

/**
 * The capabilities that only one plugin of a list may act on: two would forward a host port or limit a pod twice. An
 * address or a MAC address may be requested from several plugins.
 */
const EXCLUSIVE = ["portMappings", "bandwidth"];

/**
 * Merges our part into a list. Entries and members of other programs stay byte for byte and in their order. Our entry
 * keeps its position among them, or becomes the first; entries of `cniChain` follow it directly. An entry of `cniChain`
 * whose type another program has added is omitted, because running a plugin twice for a pod is rarely intended.
 *
 * @param present undefined where there is no list
 */
export function mergeList(present: NetworkList | undefined, own: OwnPart): MergedList {
  const entries = present?.entries ?? [];
  const others = entries.filter((entry) => !isOwn(entry));
  const firstOwn = entries.findIndex(({ type }) => type === PLUGIN);
  const before = firstOwn === -1 ? 0 : entries.slice(0, firstOwn).filter((entry) => !isOwn(entry)).length;
  const types = new Set(others.map(({ type }) => type));
  const taken = own.chain.flatMap(({ type }) => (typeof type === "string" && types.has(type) ? [type] : []));
  const kept = own.chain.filter(({ type }) => typeof type !== "string" || !types.has(type));
  const chain = kept.map((entry) => ({ ...entry, [CHAIN_MARK]: CHAIN_SOURCE }));
  const yielded = yieldedCapabilities([...others.map(({ value }) => value), ...chain], own.entry);
  const ours = [withoutCapabilities(own.entry, yielded), ...chain];
  const target = [
    ...others.slice(0, before).map(({ raw }) => raw),
    ...ours.map((value) => textAsWritten(entries, value) ?? rawOf(value, "    ")),
    ...others.slice(before).map(({ raw }) => raw),
  ];
  const isInPlace =
    present?.unusable === 0 &&
    present.name === own.name &&
    present.cniVersion === own.cniVersion &&
    isDeepStrictEqual(present.cniVersions, own.cniVersions) &&
    isDeepStrictEqual(
      entries.map(({ raw }) => raw),
      target,
    );
  return {
    text: listText(present, own, target),
    isInPlace,
    found: [present?.name, present?.cniVersion, present?.cniVersions, entries.filter(isOwn).map(({ value }) => value)],
    desired: [own.name, own.cniVersion, own.cniVersions, ours],
    others: [...new Set([...types, ...kept.map(({ type }) => type)])].filter((type) => typeof type === "string"),
    taken,
    yielded,
  };
}

/**
 * Returns the list without our part, for a node that Drawbridge leaves; undefined where no remaining entry works
 * without ours. Entries after ours expect its result; an entry before ours may be a main plugin.
 */
export function withoutOwnPart(list: NetworkList): string | undefined {
  const firstOwn = list.entries.findIndex(({ type }) => type === PLUGIN);
  const others = list.entries.filter((entry) => !isOwn(entry));
  if (others.length === 0) return undefined;
  if (firstOwn !== -1 && !list.entries.slice(0, firstOwn).some((entry) => !isOwn(entry))) return undefined;
  return listText(
    list,
    list,
    others.map(({ raw }) => raw),
  );
}

function isOwn({ type, value }: ListEntry): boolean {
  return type === PLUGIN || value[CHAIN_MARK] === CHAIN_SOURCE;
}

/** Returns the present text of an entry of ours that is as desired; another program may have reformatted it. */
function textAsWritten(entries: readonly ListEntry[], value: JsonObject): string | undefined {
  return entries.find((entry) => isOwn(entry) && isDeepStrictEqual(entry.value, value))?.raw;
}

function yieldedCapabilities(others: readonly JsonObject[], entry: JsonObject): readonly string[] {
  return EXCLUSIVE.filter((name) => declares(entry, name) && others.some((other) => declares(other, name)));
}

function declares({ capabilities }: JsonObject, name: string): boolean {
  return isObject(capabilities) && capabilities[name] === true;
}

/** Returns our entry without capabilities. A separate bandwidth plugin needs the port's qdiscs: no bridge bypass. */
function withoutCapabilities(entry: JsonObject, names: readonly string[]): JsonObject {
  if (names.length === 0 || !isObject(entry["capabilities"])) return entry;
  const capabilities = Object.fromEntries(
    Object.entries(entry["capabilities"]).filter(([name]) => !names.includes(name)),
  );
  return { ...entry, capabilities, ...(names.includes("bandwidth") ? { bypassBridge: false } : {}) };
}

function listText(
  present: NetworkList | undefined,
  { cniVersion, cniVersions, name }: Pick<NetworkList, "cniVersion" | "cniVersions" | "name">,
  entries: readonly string[],
): string {
  const head = Object.entries({ cniVersion, cniVersions, name })
    .filter(([, value]) => value !== undefined)
    .map(([key, value]) => `${JSON.stringify(key)}: ${rawOf(value, "  ")}`);
  const members = [...head, ...(present?.members ?? [])];
  return `{\n  ${[...members, `"plugins": [\n    ${entries.join(",\n    ")}\n  ]`].join(",\n  ")}\n}\n`;
}

import { STATE_NAMES } from "../../../attachment/state_names.ts";
import { isLedgerFile } from "../../../policyd/flows/ledger_files.ts";
import { detachConfiguration } from "../../../policyd/installation/configuration_list.ts";
import { configurationPath, detachPath } from "../own_lists.ts";
import type { FileEntry, Inventory } from "./inventory.ts";
import type { Kept, Plan, Removal } from "./removal.ts";

const FOR_PODS = "without it the pods that are there could not be deleted";

/**
 * Plans for the network configuration and then the executables.
 *
 * containerd calls DEL by the configuration of the moment, and cannot stop a pod without one; CRI-O calls DEL by the
 * configuration of the ADD. Both need the executables (docs/runtimes.md).
 */
export function files(inventory: Inventory, hasPods: boolean): Plan {
  const { files: entries, place } = inventory;
  const ours = entries.filter(({ isOurs }) => isOurs);
  const isConfiguration = ({ path }: FileEntry): boolean => path.startsWith(`${place.configurationDirectory}/`);
  const removals: Removal[] = configurationRemovals(inventory, ours.filter(isConfiguration), hasPods);
  const kept: Kept[] = entries
    .filter(({ isOurs }) => !isOurs)
    .map(({ path }) => ({ what: path, why: "its content is not Drawbridge's" }));
  if (hasPods && inventory.lists.isDetachThere) kept.push({ what: detachPath(place), why: FOR_PODS });
  for (const entry of ours.filter((one) => !isConfiguration(one))) {
    if (hasPods && !isLeftover(entry)) kept.push({ what: entry.path, why: FOR_PODS });
    else removals.push({ kind: "file", path: entry.path });
  }
  return { removals, kept };
}

function configurationRemovals({ place, lists }: Inventory, ours: readonly FileEntry[], hasPods: boolean): Removal[] {
  const own = configurationPath(place);
  const replacement = detachPath(place);
  const found = ours.find(({ path }) => path === own);
  // Otherwise runtimes use the main plugin that stays in our list, or another configuration.
  const needsList = hasPods && found?.hasMainPlugin !== true && !lists.isDetachThere && lists.others.length === 0;
  const removals: Removal[] = ours
    .filter(({ path }) => path !== own && (path !== replacement || !hasPods))
    .map(({ path }) => ({ kind: "file", path }));
  if (needsList) {
    const text = detachConfiguration(lists.own, place);
    return [{ kind: "list", path: own, replacement, text }, ...removals];
  }
  if (found === undefined) return removals;
  return [{ kind: found.hasMainPlugin === true ? "entry" : "file", path: own }, ...removals];
}

/** Returns whether an installation that was killed left the file. */
function isLeftover({ path }: FileEntry): boolean {
  return path.slice(path.lastIndexOf("/") + 1).startsWith(".");
}

/** Plans for the ledger of flows, which no pod needs. */
export function flows({ flows: names, place }: Inventory): Plan {
  return directory(place.flowDirectory, names, isLedgerFile);
}

/** Plans for a directory, which stays where it has other names than ours. */
function directory(path: string, names: readonly string[] | undefined, isOurs: (name: string) => boolean): Plan {
  if (names === undefined) return { removals: [], kept: [] };
  const others = names.filter((name) => !isOurs(name));
  if (others.length === 0) return { removals: [{ kind: "directory", path }], kept: [] };
  return { removals: [], kept: [{ what: path, why: `${others.join(", ")} in it is not Drawbridge's` }] };
}

/** Plans for the store of addresses and the state directory. */
export function state({ state: names, stores, place }: Inventory, hasPods: boolean): Plan {
  const removals: Removal[] = [];
  const kept: Kept[] = [];
  for (const { path, strange } of stores) {
    if (strange.length > 0) kept.push({ what: path, why: `${strange.join(", ")} in it is not an address` });
    else if (hasPods) kept.push({ what: path, why: FOR_PODS });
    else removals.push({ kind: "directory", path });
  }
  if (names === undefined) return { removals, kept };
  const pathOf = (name: string): string => `${place.stateDirectory}/${name}`;
  const others = names.filter((name) => !STATE_NAMES.has(name));
  if (others.length > 0) {
    kept.push({ what: place.stateDirectory, why: `${others.join(", ")} in it is not Drawbridge's` });
  }
  if (others.length === 0 && !hasPods) {
    return { removals: [...removals, { kind: "directory", path: place.stateDirectory }], kept };
  }
  for (const name of names) {
    const known = STATE_NAMES.get(name);
    if (known === undefined) continue;
    if (known.isForPods === true && hasPods) kept.push({ what: pathOf(name), why: FOR_PODS });
    else removals.push({ kind: known.isFile === true ? "file" : "directory", path: pathOf(name) });
  }
  return { removals, kept };
}

import { isBeside, isOurs, RULE_PRIORITY } from "../../../policyd/routes/own_routes.ts";
import { isOurTable, OUR_TABLES } from "../../../policyd/checks/our_tables.ts";
import { attachedPods, delayDevices, hostLinks, sha256 } from "./attached.ts";
import type { Inventory, FileEntry, ChangedSetting } from "./inventory.ts";
import { type Kept, type Plan, type Removal, dotted } from "./removal.ts";
import { shortList } from "../../../objects/printable.ts";
import { bridgeMac } from "../../../attachment/names_and_macs.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import type { CheckedLink } from "../../../policyd/problems/check.ts";
import { STATE_NAMES } from "../../../attachment/state_names.ts";
import { isLedgerFile } from "../../../policyd/flows/ledger_files.ts";
import { detachConfiguration } from "../../../policyd/installation/configuration_list.ts";
import { configurationPath, detachPath } from "../own_lists.ts";
import type { OriginalSetting } from "../../../attachment/original_settings.ts";

/** A plan with notes for people. */
export interface CleanupPlan extends Plan {
  /** The pods that a runtime cannot delete without the retained things. */
  readonly pods: readonly string[];
  readonly notes: readonly string[];
}

/** The number of pods that a message names. */
const NAMED = 5;

/**
 * Returns what to remove so that nothing of Drawbridge is left on a node, and what stays. The network configuration is
 * first, so that no runtime attaches another pod. The records that say what is ours are last, so that a cleanup can be
 * repeated.
 *
 * While pods attached by Drawbridge exist, everything by which a runtime deletes them stays: the executables, a list
 * that attaches nothing, and the records (UNINSTALL-03). A cleanup after the last pod is gone removes these.
 *
 * @param withPods also takes pods' links down and removes the bridge: running pods lose their network
 */
export function cleanupPlan(inventory: Inventory, withPods: boolean): CleanupPlan {
  const pods = attachedPods(inventory);
  const hasPods = pods.length > 0;
  const linkPlan = links(inventory, withPods);
  const removedLinks = linkPlan.removals.flatMap((removal) => (removal.kind === "link" ? removal.name : []));
  const parts = [
    files(inventory, hasPods),
    tables(inventory),
    routes(inventory),
    linkPlan,
    settings(inventory, hasPods && !withPods, removedLinks),
    flows(inventory),
    state(inventory, hasPods),
  ];
  return {
    removals: parts.flatMap(({ removals }) => removals),
    kept: parts.flatMap(({ kept }) => kept),
    pods,
    notes: podNotes(pods),
  };
}

function podNotes(pods: readonly string[]): readonly string[] {
  if (pods.length === 0) return [];
  return [`delete or recreate the pods that Drawbridge has attached, then run this again: ${podList(pods)}`];
}

/** Returns the names of some pods, and the number of the others. */
export function podList(pods: readonly string[]): string {
  return shortList(pods, NAMED);
}

function tables({ tables: all }: Inventory): Plan {
  const removals: Removal[] = [];
  const kept: Kept[] = [];
  for (const reference of OUR_TABLES) {
    const table = all.find(({ family, name }) => family === reference.family && name === reference.name);
    if (table === undefined) continue;
    if (isOurTable(table)) removals.push({ kind: "table", table: reference, isOwned: table.isOwned });
    else
      kept.push({ what: `table ${reference.family} ${reference.name}`, why: "its comment is not one of Drawbridge's" });
  }
  return { removals, kept };
}

/** Plans for the routes and for what lets other bridges' pods reach ours (policyd/coexistence/). */
function routes({ routes: all, rules, proxies, links: present }: Inventory): Plan {
  return {
    removals: [
      ...rules.filter(({ priority }) => priority === RULE_PRIORITY).map((rule): Removal => ({ kind: "rule", rule })),
      ...all.filter((route) => isOurs(route) || isBeside(route)).map((route): Removal => ({ kind: "route", route })),
      ...proxies.map((proxy): Removal => {
        const link = present.find(({ index }) => index === proxy.index)?.name ?? `link ${proxy.index}`;
        return { kind: "proxy", proxy, link };
      }),
    ],
    kept: [],
  };
}

/** Reasons to retain something that `--pods` removes. */
const WITH_PODS = "pods may use it; --pods takes it, too";
const DOWN_WITH_PODS = "pods may use it; --pods takes it down";
const WITH_ITS_POD = "it goes with its pod";

/** Plans for the tunnel and, with `withPods`, for the bridge and the connection of each pod. */
function links(inventory: Inventory, withPods: boolean): Plan {
  const parts = [tunnelOf(inventory), podLinks(inventory, withPods), bridgeOf(inventory, withPods)];
  return { removals: parts.flatMap(({ removals }) => removals), kept: parts.flatMap(({ kept }) => kept) };
}

function tunnelOf({ links: all }: Inventory): Plan {
  const tunnel = all.find(({ name }) => name === TUNNEL.name);
  if (tunnel === undefined) return { removals: [], kept: [] };
  if (tunnel.vxlan !== undefined) return { removals: [linkRemoval(tunnel)], kept: [] };
  return { removals: [], kept: [{ what: `link ${tunnel.name}`, why: "it is not a VXLAN device" }] };
}

/** A link shows that its pod exists: the runtime's DEL removes it, or the end of the pod's network namespace. */
function podLinks(inventory: Inventory, withPods: boolean): Plan {
  const hosts = hostLinks(inventory);
  const delaying = delayDevices(inventory);
  const kept = hosts.map(({ name }) => ({ what: `link ${name}`, why: withPods ? WITH_ITS_POD : DOWN_WITH_PODS }));
  if (hosts.length > 0) {
    const removals = hosts
      .filter(({ up }) => withPods && up)
      .map(({ name }): Removal => ({ kind: "connection", name }));
    return { removals, kept: [...kept, ...delaying.map(({ name }) => ({ what: `link ${name}`, why: WITH_ITS_POD }))] };
  }
  return { removals: delaying.map(linkRemoval), kept: [] };
}

function bridgeOf(inventory: Inventory, withPods: boolean): Plan {
  const { links: all, place, bridgePrograms } = inventory;
  const hosts = hostLinks(inventory);
  const bridge = all.find(({ name, kind }) => name === place.bridge && kind === "bridge");
  if (!withPods && hosts.length > 0) {
    return { removals: [], kept: bridge === undefined ? [] : [{ what: `link ${bridge.name}`, why: WITH_PODS }] };
  }
  const removals: Removal[] = bridgePrograms.map(({ program, bridge: { name, index } }) => ({
    kind: "program",
    program,
    bridge: name,
    index,
  }));
  if (bridge === undefined) return { removals, kept: [] };
  const reason = reasonToKeepBridge(bridge, inventory, hosts);
  if (reason === undefined) return { removals: [...removals, linkRemoval(bridge)], kept: [] };
  const addresses = addressesOf(bridge, inventory);
  const left =
    addresses.length === 0 ? "" : `; it keeps ${addresses.join(", ")}: ip address del ADDRESS dev ${bridge.name}`;
  return { removals, kept: [{ what: `link ${bridge.name}`, why: `${reason}${left}` }] };
}

function reasonToKeepBridge(
  bridge: CheckedLink,
  inventory: Inventory,
  hosts: readonly CheckedLink[],
): string | undefined {
  if (!isOurBridge(bridge, inventory)) return "its MAC address is not the one Drawbridge gives";
  const foreign = inventory.links.filter(
    ({ master, name }) => master === bridge.index && !hosts.some((host) => host.name === name),
  );
  if (foreign.length === 0) return undefined;
  return `${foreign.map(({ name }) => name).join(", ")} is on it and not Drawbridge's`;
}

/** Returns the addresses that somebody has set; the kernel makes the link-local ones. */
function addressesOf(bridge: CheckedLink, { addresses }: Inventory): readonly string[] {
  const all = addresses.filter(({ index }) => index === bridge.index).map(({ address }) => formatCidr(address));
  return all.filter((text) => !text.startsWith("fe80:"));
}

/** Returns whether a bridge is ours: its MAC address then follows from its name and its first gateway address. */
function isOurBridge(bridge: CheckedLink, { addresses }: Inventory): boolean {
  const own = addresses.filter(({ index }) => index === bridge.index);
  const gateways = ["", ...own.map(({ address }) => formatAddress(address.address))];
  return gateways.some((gateway) => bridge.mac === bridgeMac(sha256, bridge.name, gateway));
}

function linkRemoval({ name }: CheckedLink): Removal {
  return { kind: "link", name };
}

const FOR_PODS = "without it the pods that are there could not be deleted";

/**
 * Plans for the network configuration and then the executables.
 *
 * containerd calls DEL by the configuration of the moment, and cannot stop a pod without one; CRI-O calls DEL by the
 * configuration of the ADD. Both need the executables (docs/runtimes.md).
 */
function files(inventory: Inventory, hasPods: boolean): Plan {
  const { files: entries, place } = inventory;
  const ours = entries.filter((one) => one.isOurs);
  const isConfiguration = ({ path }: FileEntry): boolean => path.startsWith(`${place.configurationDirectory}/`);
  const removals: Removal[] = configurationRemovals(inventory, ours.filter(isConfiguration), hasPods);
  const kept: Kept[] = entries
    .filter((one) => !one.isOurs)
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
function flows({ flows: names, place }: Inventory): Plan {
  return directory(place.flowDirectory, names, isLedgerFile);
}

/** Plans for a directory, which stays where it has other names than ours. */
function directory(path: string, names: readonly string[] | undefined, isOwn: (name: string) => boolean): Plan {
  if (names === undefined) return { removals: [], kept: [] };
  const others = names.filter((name) => !isOwn(name));
  if (others.length === 0) return { removals: [{ kind: "directory", path }], kept: [] };
  return { removals: [], kept: [{ what: path, why: `${others.join(", ")} in it is not Drawbridge's` }] };
}

/** Plans for the store of addresses and the state directory. */
function state({ state: names, stores, place }: Inventory, hasPods: boolean): Plan {
  const removals: Removal[] = [];
  const kept: Kept[] = [];
  for (const { path, strange } of stores) {
    if (strange.length > 0)
      kept.push({ what: path, why: `${shortList(strange, NAMED)} in it may be another plugin's` });
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

const TABLE_SIZE = "net/netfilter/nf_conntrack_max";
/** A node that forwards pods' packets needs these with any network add-on. */
const FORWARDING = /^net\/(ipv4\/ip_forward|ipv6\/conf\/all\/forwarding|ipv6\/conf\/[^/]+\/accept_ra)$/;
const REDIRECTS = "net/ipv4/conf/all/send_redirects";

/**
 * Plans to restore the values that kernel settings had before Drawbridge changed them (UNINSTALL-01).
 *
 * A setting stays where somebody else has changed it since. Forwarding stays on: other programs may rely on it by now.
 *
 * @param hasConnectedPods whether pods continue to use our bridge
 * @param removedLinks the names of links whose settings disappear with them
 */
function settings(
  { settings: all, connections }: Inventory,
  hasConnectedPods: boolean,
  removedLinks: readonly string[],
): Plan {
  const removals: Removal[] = [];
  const kept: Kept[] = [];
  for (const { path, setting, present } of all) {
    if (removedLinks.some((name) => setting?.key.split("/").at(-2) === name)) continue;
    if (setting === undefined) {
      kept.push({ what: path, why: "it is not a record of this release: a newer one knows what it says" });
      continue;
    }
    if (present === undefined || present === setting.original) continue;
    const why = reasonToKeepSetting({ path, setting, present }, setting, connections, hasConnectedPods);
    if (why !== undefined) kept.push({ what: dotted(setting.key), why });
    else removals.push({ kind: "setting", key: setting.key, value: setting.original, record: path });
  }
  return { removals, kept };
}

function reasonToKeepSetting(
  { present }: ChangedSetting,
  { key, original, ours }: OriginalSetting,
  connections: number | undefined,
  hasConnectedPods: boolean,
): string | undefined {
  if (present === undefined || !ours.includes(present)) {
    return `it was ${original} before Drawbridge, and somebody else has set it to ${present} since`;
  }
  const way = `sysctl -w ${dotted(key)}=${original}`;
  if (FORWARDING.test(key))
    return `Drawbridge changed it from ${original} to ${present}, and others may rely on that: ${way}`;
  // The kernel refuses every new connection above the size.
  if (key === TABLE_SIZE && original !== "0" && connections !== undefined && connections * 2 > Number(original)) {
    return `${connections} connections are tracked, so they may soon be more than the ${original} from before: ${way}`;
  }
  if (key === REDIRECTS && hasConnectedPods) return "pods use the bridge; --pods takes it, too";
  return undefined;
}

import { LOCK_FILE, SOCKET_FILE } from "../../../cni/server/protocol.ts";
import { createHash } from "node:crypto";
import { bridgeMac, hostMac } from "../../../cni/names.ts";
import { PORT_PROGRAM } from "../../../kernel/bpf/port_table.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import type { TableReference } from "../../../kernel/nftables/object.ts";
import type { Route } from "../../../kernel/route/route.ts";
import type { RoutingRule } from "../../../kernel/route/rule.ts";
import { isOurs as isOurRoute, RULE_PRIORITY, TUNNEL } from "../../../policyd/routes/names.ts";
import type { NodeLink } from "../doctor/facts.ts";
import { isOurTable, OUR_TABLES } from "../ours.ts";
import type { Inventory } from "./inventory.ts";

/** One thing to remove. */
export type Removal =
  | { readonly kind: "file"; readonly path: string }
  /** Our part of a network configuration list. */
  | { readonly kind: "entry"; readonly path: string }
  | { readonly kind: "table"; readonly table: TableReference; readonly isOwned: boolean }
  | { readonly kind: "route"; readonly route: Route }
  | { readonly kind: "rule"; readonly rule: RoutingRule }
  | { readonly kind: "link"; readonly name: string; readonly index: number }
  /** What takes the packets of a bridge around it, whoever made that. */
  | { readonly kind: "program"; readonly bridge: string; readonly index: number }
  /** With all that is in it. */
  | { readonly kind: "directory"; readonly path: string };

/** Something that stays, and why. */
export interface Kept {
  readonly what: string;
  readonly why: string;
}

/** What a cleanup does, as a value. */
export interface Plan {
  /** In the order they are carried out. */
  readonly removals: readonly Removal[];
  readonly kept: readonly Kept[];
}

/** A plan with what people should know besides. */
export interface CleanupPlan extends Plan {
  readonly notes: readonly string[];
}

/** What may stand in the state directory that is ours. */
const STATE = ["attachments", "retained", "policyd.sock", "policyd.sock.lock"];
/** What the plugin server and the shims that start it have in its directory. */
const SERVER_FILES = [LOCK_FILE, SOCKET_FILE];
const HOST_INTERFACE = /^dbv[0-9a-f]{12}$/;
const WITH_PODS = "pods may use it; --pods takes it, too";

/**
 * What has to go so that nothing of Drawbridge is left on a node, and what stays. First the network configuration, so that no
 * runtime attaches another pod, at last what says what is ours, so that a cleanup that is cut short can be run again.
 *
 * @param withPods pods' links, the bridge and what is known of attachments go, too: pods that still run lose their network
 */
export function cleanupPlan(inventory: Inventory, withPods: boolean): CleanupPlan {
  const parts = [
    files(inventory),
    tables(inventory),
    routes(inventory),
    links(inventory, withPods),
    server(inventory),
    state(inventory, withPods),
  ];
  return {
    removals: parts.flatMap(({ removals }) => removals),
    kept: parts.flatMap(({ kept }) => kept),
    notes:
      inventory.server?.isRunning === true
        ? ["a plugin server runs: without its executable it ends by itself within a minute"]
        : [],
  };
}

/** The configuration comes first, since its name sorts before those of plugins in no directory: by its kind. */
function files({ files: entries, place }: Inventory): Plan {
  const ours = entries.filter(({ isOurs }) => isOurs);
  const inFirst = (path: string): boolean => path.startsWith(`${place.configurationDirectory}/`);
  const ordered = [...ours.filter(({ path }) => inFirst(path)), ...ours.filter(({ path }) => !inFirst(path))];
  return {
    removals: ordered.map(({ path, hasMainPlugin }) => ({ kind: hasMainPlugin === true ? "entry" : "file", path })),
    kept: entries
      .filter(({ isOurs }) => !isOurs)
      .map(({ path }) => ({ what: path, why: "its content is not Drawbridge's" })),
  };
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

function routes({ routes: all, rules }: Inventory): Plan {
  return {
    removals: [
      ...rules.filter(({ priority }) => priority === RULE_PRIORITY).map((rule): Removal => ({ kind: "rule", rule })),
      ...all.filter(isOurRoute).map((route): Removal => ({ kind: "route", route })),
    ],
    kept: [],
  };
}

function links(inventory: Inventory, withPods: boolean): Plan {
  const removals: Removal[] = [];
  const kept: Kept[] = [];
  const { links: all, place } = inventory;
  const tunnel = all.find(({ name }) => name === TUNNEL.name);
  if (tunnel?.vxlan === undefined) {
    if (tunnel !== undefined) kept.push({ what: `link ${tunnel.name}`, why: "it is no VXLAN device" });
  } else {
    removals.push(linkRemoval(tunnel));
  }
  const hosts = hostLinks(inventory);
  const bridge = all.find(({ name, kind }) => name === place.bridge && kind === "bridge");
  if (!withPods) {
    for (const { name } of hosts) kept.push({ what: `link ${name}`, why: WITH_PODS });
    if (bridge !== undefined) kept.push({ what: `link ${bridge.name}`, why: WITH_PODS });
    return { removals, kept };
  }
  removals.push(...hosts.map(linkRemoval));
  removals.push(
    ...inventory.bypassedBridges.map(({ name, index }): Removal => ({ kind: "program", bridge: name, index })),
  );
  if (bridge === undefined) return { removals, kept };
  const foreign = all.filter(
    ({ master, name }) => master === bridge.index && !hosts.some((host) => host.name === name),
  );
  if (!isOurBridge(bridge, inventory))
    kept.push({ what: `link ${bridge.name}`, why: "its MAC address is not the one Drawbridge gives" });
  else if (foreign.length > 0) {
    kept.push({
      what: `link ${bridge.name}`,
      why: `${foreign.map(({ name }) => name).join(", ")} is on it and not Drawbridge's`,
    });
  } else removals.push(linkRemoval(bridge));
  return { removals, kept };
}

/** Host ends of pods' links: their MAC address follows from their name, whatever else has such a name. */
function hostLinks({ links: all }: Inventory): readonly NodeLink[] {
  return all.filter(
    ({ name, kind, mac }) => kind === "veth" && HOST_INTERFACE.test(name) && mac === hostMac(sha256, name),
  );
}

/** A bridge of ours has a MAC address that follows from its name and its first gateway address. */
function isOurBridge({ name, mac }: NodeLink, { addresses }: Inventory): boolean {
  const gateways = addresses.filter(({ link }) => link === name).map(({ address }) => formatAddress(address.address));
  return ["", ...gateways].some((gateway) => mac === bridgeMac(sha256, name, gateway));
}

function server({ server: found, place: { serverDirectory } }: Inventory): Plan {
  if (found === undefined) return { removals: [], kept: [] };
  const others = found.names.filter((name) => !SERVER_FILES.includes(name));
  if (others.length === 0) return { removals: [{ kind: "directory", path: serverDirectory }], kept: [] };
  return { removals: [], kept: [{ what: serverDirectory, why: `${others.join(", ")} in it is not Drawbridge's` }] };
}

function state(inventory: Inventory, withPods: boolean): Plan {
  const { state: names, stores, place, records } = inventory;
  const removals: Removal[] = [];
  const kept: Kept[] = [];
  const hasPods = hostLinks(inventory).length > 0 || records.length > 0;
  for (const { path, strange } of stores) {
    if (strange.length > 0) kept.push({ what: path, why: `${strange.join(", ")} in it is no address` });
    else if (hasPods && !withPods) kept.push({ what: path, why: WITH_PODS });
    else removals.push({ kind: "directory", path });
  }
  if (names === undefined) return { removals, kept };
  const others = names.filter((name) => !STATE.includes(name));
  const pathOf = (name: string): string => `${place.stateDirectory}/${name}`;
  if (others.length > 0) {
    kept.push({ what: place.stateDirectory, why: `${others.join(", ")} in it is not Drawbridge's` });
  }
  if (hasPods && !withPods) {
    // DEL goes by the records.
    kept.push({ what: pathOf("attachments"), why: WITH_PODS });
    removals.push(...names.filter((name) => name !== "attachments" && STATE.includes(name)).map(stateRemoval(pathOf)));
  } else if (others.length > 0)
    removals.push(...names.filter((name) => STATE.includes(name)).map(stateRemoval(pathOf)));
  else removals.push({ kind: "directory", path: place.stateDirectory });
  return { removals, kept };
}

function stateRemoval(pathOf: (name: string) => string) {
  return (name: string): Removal => ({ kind: name === "policyd.sock" ? "file" : "directory", path: pathOf(name) });
}

function linkRemoval({ name, index }: NodeLink): Removal {
  return { kind: "link", name, index };
}

/** What a removal removes, in words. */
export function removalText(removal: Removal): string {
  switch (removal.kind) {
    case "file":
    case "directory":
      return removal.path;
    case "entry":
      return `our plugins in ${removal.path}`;
    case "table":
      return `${removal.table.family} ${removal.table.name}`;
    case "route": {
      const { destination, family, table, gateway } = removal.route;
      const to = destination === undefined ? `default (IPv${family})` : formatCidr(destination);
      return `${to}${gateway === undefined ? "" : ` via ${formatAddress(gateway)}`} table ${table}`;
    }
    case "rule":
      return `${removal.rule.priority}: IPv${removal.rule.family} iif ${removal.rule.inputInterface} lookup ${removal.rule.table}`;
    case "link":
      return removal.name;
    case "program":
      return `${PORT_PROGRAM} of ${removal.bridge}`;
  }
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

import { bridgeMac } from "../../../attachment/names_and_macs.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import type { CheckedLink } from "../../../policyd/problems/check.ts";
import { delayDevices, hostLinks, sha256 } from "./attached.ts";
import type { Inventory } from "./inventory.ts";
import type { Plan, Removal } from "./removal.ts";

/** Reasons to retain something that `--pods` removes. */
const WITH_PODS = "pods may use it; --pods takes it, too";
const DOWN_WITH_PODS = "pods may use it; --pods takes it down";
const WITH_ITS_POD = "it goes with its pod";

/** Plans for the tunnel and, with `withPods`, for the bridge and the connection of each pod. */
export function links(inventory: Inventory, withPods: boolean): Plan {
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
  const reason = reasonToKeep(bridge, inventory, hosts);
  if (reason === undefined) return { removals: [...removals, linkRemoval(bridge)], kept: [] };
  const addresses = addressesOf(bridge, inventory);
  const left =
    addresses.length === 0 ? "" : `; it keeps ${addresses.join(", ")}: ip address del ADDRESS dev ${bridge.name}`;
  return { removals, kept: [{ what: `link ${bridge.name}`, why: `${reason}${left}` }] };
}

function reasonToKeep(bridge: CheckedLink, inventory: Inventory, hosts: readonly CheckedLink[]): string | undefined {
  if (!isOurBridge(bridge, inventory)) return "its MAC address is not the one Drawbridge gives";
  const foreign = inventory.links.filter(
    ({ master, name }) => master === bridge.index && !hosts.some((host) => host.name === name),
  );
  if (foreign.length === 0) return undefined;
  return `${foreign.map(({ name }) => name).join(", ")} is on it and not Drawbridge's`;
}

/** Returns the addresses that somebody has set; the kernel makes the link-local ones. */
function addressesOf({ name }: CheckedLink, { addresses }: Inventory): readonly string[] {
  const all = addresses.filter(({ link }) => link === name).map(({ address }) => formatCidr(address));
  return all.filter((text) => !text.startsWith("fe80:"));
}

/** Returns whether a bridge is ours: its MAC address then follows from its name and its first gateway address. */
function isOurBridge({ name, mac }: CheckedLink, { addresses }: Inventory): boolean {
  const gateways = addresses.filter(({ link }) => link === name).map(({ address }) => formatAddress(address.address));
  return ["", ...gateways].some((gateway) => mac === bridgeMac(sha256, name, gateway));
}

function linkRemoval({ name }: CheckedLink): Removal {
  return { kind: "link", name };
}

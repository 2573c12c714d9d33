import { createHash } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { BRIDGE, type HarmedFiles } from "./harms.ts";

interface LinkJson {
  readonly ifname: string;
  readonly ifindex: number;
  readonly mtu: number;
  readonly address?: string;
  readonly master?: string;
  readonly flags: readonly string[];
  readonly linkinfo?: {
    readonly info_data?: { readonly stp_state?: number };
    readonly info_slave_data?: { readonly hairpin?: boolean; readonly group_fwd_mask?: string };
  };
}

const SETTINGS = [
  `net/ipv4/conf/${BRIDGE}/forwarding`,
  `net/ipv4/conf/${BRIDGE}/send_redirects`,
  `net/ipv4/conf/${BRIDGE}/accept_source_route`,
  `net/ipv6/conf/${BRIDGE}/forwarding`,
  `net/ipv6/conf/${BRIDGE}/accept_ra`,
  `net/ipv6/conf/${BRIDGE}/seg6_enabled`,
  `net/ipv6/conf/${BRIDGE}/rpl_seg_enabled`,
  `net/ipv6/conf/${BRIDGE}/disable_ipv6`,
];

/**
 * Returns the node's side of its pods, as the tools of iproute2 list it: it is the same before a harm and after the
 * repair.
 */
export function podState(node: LabNamespace): Readonly<Record<string, unknown>> {
  const links = linksOf(node);
  const indexOfBridge = links.find(({ ifname }) => ifname === BRIDGE)?.ifindex;
  const ours = links.filter(({ ifname }) => ifname === BRIDGE || ifname.startsWith("dbv"));
  return {
    links: ours
      .toSorted((a, b) => (a.ifname < b.ifname ? -1 : 1))
      .map(({ ifname, mtu, address, master, flags, linkinfo }) => ({
        ifname,
        mtu,
        address,
        master,
        isUp: flags.includes("UP"),
        stp: linkinfo?.info_data?.stp_state,
        hairpin: linkinfo?.info_slave_data?.hairpin,
        mask: linkinfo?.info_slave_data?.group_fwd_mask,
      })),
    addresses: lines(node, "ip", "-o", "address", "show", "dev", BRIDGE, "scope", "global").map((line) =>
      line.replace(/^\d+: /, "").replace(/ *\\.*$/, ""),
    ),
    routes: ["-4", "-6"].flatMap((family) =>
      lines(node, "ip", family, "route", "show", "dev", BRIDGE).filter((line) => !line.startsWith("fe80")),
    ),
    neighbours: lines(node, "ip", "neighbour", "show", "dev", BRIDGE, "nud", "permanent"),
    settings: SETTINGS.map((key) => [key, node.readSysctl(key)]),
    filters: ours
      .filter(({ ifname }) => ifname !== BRIDGE)
      .map(({ ifname }) => {
        const text = node.exec("tc", ["filter", "show", "dev", ifname, "ingress"]);
        return [ifname, [...text.matchAll(/Ingress Redirect to device (\S+)\)/g)].map(([, target]) => target)];
      }),
    hasBridge: indexOfBridge !== undefined,
  };
}

/** Returns the node's connection to other nodes: the tunnel with its entries, our routes and rules. */
export function wayState(node: LabNamespace): Readonly<Record<string, unknown>> {
  const tunnel = linksOf(node).find(({ ifname }) => ifname === TUNNEL.name);
  return {
    tunnel: tunnel && { mtu: tunnel.mtu, address: tunnel.address, isUp: tunnel.flags.includes("UP") },
    entries:
      tunnel === undefined
        ? []
        : [
            ...lines(node, "bridge", "fdb", "show", "dev", TUNNEL.name),
            ...lines(node, "ip", "neighbour", "show", "dev", TUNNEL.name, "nud", "permanent"),
          ],
    ways: ["-4", "-6"].flatMap((family) => [
      ...lines(node, "ip", family, "route", "show", "table", "all", "proto", "107"),
      ...lines(node, "ip", family, "rule", "show"),
    ]),
  };
}

/** Returns our files on the node with a digest of each, by their names; of the socket only whether it exists. */
export function fileState({ configurations, binaries, state, socket }: HarmedFiles): readonly string[] {
  const found = [configurations, binaries, `${state}/attachments`].flatMap((directory) =>
    existsSync(directory)
      ? readdirSync(directory, { recursive: true, encoding: "utf8" }).flatMap((name) => digest(`${directory}/${name}`))
      : [],
  );
  // The daemon keeps a copy of a configuration that it cannot read.
  const own = found.filter((line) => !line.includes(".saved-"));
  return [...own, ...[socket, `${socket}.lock`].map((file) => `${file} ${existsSync(file)}`)].toSorted();
}

/** Returns a line for a file; none for a directory and for a file that is removed meanwhile. */
function digest(file: string): readonly string[] {
  try {
    return [`${file} ${createHash("sha256").update(readFileSync(file)).digest("hex")}`];
  } catch {
    return [];
  }
}

/** Returns all state of a node that is not ours: links with their indexes, addresses, routes and settings. */
export function othersState(node: LabNamespace): Readonly<Record<string, unknown>> {
  const links = linksOf(node).filter(
    ({ ifname }) => ifname !== BRIDGE && ifname !== TUNNEL.name && !ifname.startsWith("dbv"),
  );
  return {
    links: links.map(({ ifname, ifindex, mtu, address, master, flags }) => ({
      ifname,
      ifindex,
      mtu,
      address,
      master,
      isUp: flags.includes("UP"),
    })),
    addresses: links.flatMap(({ ifname }) =>
      lines(node, "ip", "-o", "address", "show", "dev", ifname, "scope", "global").map((line) =>
        line.replace(/ *\\.*$/, ""),
      ),
    ),
    routes: ["-4", "-6"].flatMap((family) =>
      lines(node, "ip", family, "route", "show", "table", "main").filter(
        (line) => !line.includes(`dev ${BRIDGE}`) && !line.includes(`dev ${TUNNEL.name}`) && !line.startsWith("fe80"),
      ),
    ),
    settings: ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv4/conf/docker0/forwarding"].map((key) => [
      key,
      node.readSysctl(key),
    ]),
  };
}

function linksOf(node: LabNamespace): readonly LinkJson[] {
  return JSON.parse(node.exec("ip", ["-d", "-j", "link", "show"])) as readonly LinkJson[];
}

function lines(node: LabNamespace, file: string, ...args: readonly string[]): readonly string[] {
  return node
    .exec(file, args)
    .split("\n")
    .map((line) => line.replace(/ linkdown/, "").trim())
    .filter((line) => line !== "")
    .toSorted();
}

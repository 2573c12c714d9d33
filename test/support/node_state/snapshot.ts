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
    readonly info_slave_data?: {
      readonly state?: string;
      readonly hairpin?: boolean;
      readonly group_fwd_mask?: string;
    };
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

/** The listings of iproute2's tools on a node: they are the same before a harm and after the repair. */
export interface NodeState {
  /** The node's side of its pods, and its connection to other nodes: the tunnel with its entries, our routes, rules. */
  readonly own: Readonly<Record<string, unknown>>;
  /** All that is not ours: links with their indexes, addresses, routes and settings. */
  readonly others: Readonly<Record<string, unknown>>;
}

/** Returns the state of a node. Each tool lists everything once, since most of the time goes into their starts. */
export function nodeState(node: LabNamespace): NodeState {
  const links = JSON.parse(node.exec("ip", ["-d", "-j", "link", "show"])) as readonly LinkJson[];
  const addresses = lines(node, "ip", "-o", "address", "show", "scope", "global").map((line) =>
    line.replace(/ *\\.*$/, ""),
  );
  const routes = ["-4", "-6"].flatMap((family) => lines(node, "ip", family, "route", "show", "table", "all"));
  const rules = ["-4", "-6"].flatMap((family) => lines(node, "ip", family, "rule", "show"));
  const neighbours = lines(node, "ip", "neighbour", "show", "nud", "permanent");
  const tunnel = links.find(({ ifname }) => ifname === TUNNEL.name);
  const pods = links
    .filter(({ ifname }) => ifname.startsWith("dbv"))
    .toSorted((a, b) => (a.ifname < b.ifname ? -1 : 1));
  const bridges = links.filter(({ ifname }) => ifname === BRIDGE);
  const strange = links.filter((link) => link !== tunnel && !pods.includes(link) && !bridges.includes(link));
  const ofMain = routes.filter((line) => !line.includes(" table ") && !line.startsWith("fe80"));
  return {
    own: {
      links: [...bridges, ...pods].map(({ ifname, mtu, address, master, flags, linkinfo }) => ({
        ifname,
        mtu,
        address,
        master,
        isUp: flags.includes("UP"),
        stp: linkinfo?.info_data?.stp_state,
        state: linkinfo?.info_slave_data?.state,
        hairpin: linkinfo?.info_slave_data?.hairpin,
        mask: linkinfo?.info_slave_data?.group_fwd_mask,
      })),
      addresses: addresses.filter(isOf(BRIDGE)).map((line) => line.replace(/^\d+: /, "")),
      routes: ofMain.filter(isOf(BRIDGE)),
      neighbours: neighbours.filter(isOf(BRIDGE)),
      settings: SETTINGS.map((key) => [key, node.readSysctl(key)]),
      filters: pods.map(({ ifname }) => {
        const text = node.exec("tc", ["filter", "show", "dev", ifname, "ingress"]);
        return [ifname, [...text.matchAll(/Ingress Redirect to device (\S+)\)/g)].map(([, target]) => target)];
      }),
      hasBridge: bridges.length > 0,
      tunnel: tunnel && { mtu: tunnel.mtu, address: tunnel.address, isUp: tunnel.flags.includes("UP") },
      entries: [
        ...(tunnel === undefined ? [] : lines(node, "bridge", "fdb", "show", "dev", TUNNEL.name)),
        ...neighbours.filter(isOf(TUNNEL.name)),
      ],
      ways: [...routes.filter((line) => / proto 107\b/.test(line)), ...rules],
    },
    others: {
      links: strange.map(({ ifname, ifindex, mtu, address, master, flags }) => ({
        ifname,
        ifindex,
        mtu,
        address,
        master,
        isUp: flags.includes("UP"),
      })),
      addresses: addresses.filter((line) => strange.some(({ ifname }) => isOf(ifname)(line))),
      routes: ofMain.filter((line) => !isOf(BRIDGE)(line) && !isOf(TUNNEL.name)(line)),
      settings: ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv4/conf/docker0/forwarding"].map(
        (key) => [key, node.readSysctl(key)],
      ),
    },
  };
}

/** Returns whether a line of a listing is of a link, which comes after `dev` or, for an address, after its index. */
function isOf(link: string): (line: string) => boolean {
  return (line) => line.includes(` dev ${link}`) || line.split(" ")[1] === link;
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

function lines(node: LabNamespace, file: string, ...args: readonly string[]): readonly string[] {
  return node
    .exec(file, args)
    .split("\n")
    .map((line) => line.replace(/ linkdown/, "").trim())
    .filter((line) => line !== "")
    .toSorted();
}

import { existsSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { TUNNEL as TUNNEL_PARAMETERS } from "../../../policyd/routes/tunnel.ts";
import type { LabNamespace } from "../../lab/namespace.ts";

/** A change by another program or an administrator of state that pods need on a node. */
export interface Harm {
  readonly name: string;
  /** @param port the link of one pod on the node */
  readonly commit: (node: LabNamespace, port: string, files: HarmedFiles) => void;
  /** Whether only a running daemon can know what was there. */
  readonly needsDaemon?: boolean;
}

/** The places of our files on the node. */
export interface HarmedFiles {
  readonly configurations: string;
  readonly binaries: string;
  readonly source: string;
  /** The directory of the records. */
  readonly state: string;
  readonly socket: string;
}

const TUNNEL = TUNNEL_PARAMETERS.name;

/** The bridge of the lab's configuration and its addresses. */
export const BRIDGE = "cni0";
/** A bridge that is not ours. */
export const OTHER_BRIDGE = "docker0";

const SUBNETS = ["10.244.1.0/24", "fd00:244:1::/64"] as const;
const GATEWAYS = ["10.244.1.1/24", "fd00:244:1::1/64"] as const;

/**
 * Runs a command and ignores its failure: with two harms at once, the first may have removed what the second changes.
 */
function run(file: string, ...args: readonly string[]) {
  return (node: LabNamespace, port: string): void => {
    try {
      node.exec(
        file,
        args.map((argument) => (argument === "PORT" ? port : argument)),
      );
    } catch {
      // Nothing is left to harm.
    }
  };
}

const ip = (...args: readonly string[]): Harm["commit"] => run("ip", ...args);

function set(key: string, value: string): Harm {
  const commit = (node: LabNamespace): void => {
    try {
      node.writeSysctl(key, value);
    } catch {
      // The other harm has removed the bridge.
    }
  };
  return { name: `${key} = ${value}`, commit };
}

/** Every removal, change or move of state, each by itself. */
export const HARMS: readonly Harm[] = [
  { name: "the bridge is deleted", commit: ip("link", "delete", BRIDGE) },
  { name: "the bridge is set down", commit: ip("link", "set", BRIDGE, "down") },
  {
    name: "the bridge is set down and up",
    commit: (node, port, files) => {
      ip("link", "set", BRIDGE, "down")(node, port, files);
      ip("link", "set", BRIDGE, "up")(node, port, files);
    },
  },
  { name: "the bridge gets another MAC address", commit: ip("link", "set", BRIDGE, "address", "02:11:22:33:44:55") },
  { name: "the bridge gets a smaller MTU", commit: ip("link", "set", BRIDGE, "mtu", "1280") },
  { name: "the bridge gets an MTU without IPv6", commit: ip("link", "set", BRIDGE, "mtu", "1000") },
  { name: "STP is switched on", commit: ip("link", "set", BRIDGE, "type", "bridge", "stp_state", "1") },
  {
    name: "STP is switched on and the bridge is set down and up",
    commit: (node, port, files) => {
      ip("link", "set", BRIDGE, "type", "bridge", "stp_state", "1")(node, port, files);
      ip("link", "set", BRIDGE, "down")(node, port, files);
      ip("link", "set", BRIDGE, "up")(node, port, files);
    },
  },
  {
    name: "the bridge's global addresses are flushed",
    commit: ip("address", "flush", "dev", BRIDGE, "scope", "global"),
  },
  { name: "all addresses of the bridge are flushed", commit: ip("address", "flush", "dev", BRIDGE) },
  ...GATEWAYS.map((address) => ({
    name: `the address ${address} is deleted`,
    commit: ip("address", "delete", address, "dev", BRIDGE),
  })),
  ...SUBNETS.map((subnet) => ({
    name: `the route to ${subnet} is deleted`,
    commit: ip("route", "delete", subnet, "dev", BRIDGE),
  })),
  { name: "the bridge's IPv4 routes are flushed", commit: ip("route", "flush", "dev", BRIDGE) },
  { name: "the bridge's IPv6 routes are flushed", commit: ip("-6", "route", "flush", "dev", BRIDGE, "table", "main") },
  { name: "the bridge's neighbours are flushed", commit: ip("neighbour", "flush", "dev", BRIDGE, "nud", "all") },
  set(`net/ipv4/conf/${BRIDGE}/forwarding`, "0"),
  set(`net/ipv4/conf/${BRIDGE}/send_redirects`, "1"),
  set(`net/ipv6/conf/${BRIDGE}/forwarding`, "0"),
  set(`net/ipv6/conf/${BRIDGE}/accept_ra`, "2"),
  set(`net/ipv6/conf/${BRIDGE}/disable_ipv6`, "1"),
  { name: "a port is taken off the bridge", commit: ip("link", "set", "PORT", "nomaster") },
  { name: "a port is moved to another bridge", commit: ip("link", "set", "PORT", "master", OTHER_BRIDGE) },
  { name: "a port is set down", commit: ip("link", "set", "PORT", "down") },
  { name: "a port gets a smaller MTU", commit: ip("link", "set", "PORT", "mtu", "600") },
  { name: "a port gets another MAC address", commit: ip("link", "set", "PORT", "address", "02:11:22:33:44:77") },
  ...["disabled", "listening"].map((state, index) => ({
    name: `a port's state is set to ${state}`,
    commit: run("bridge", "link", "set", "dev", "PORT", "state", String(index)),
  })),
  {
    name: "a port's hairpin mode is switched off",
    commit: run("bridge", "link", "set", "dev", "PORT", "hairpin", "off"),
  },
  {
    name: "a port takes frames to reserved groups past the guard",
    commit: ip("link", "set", "PORT", "type", "bridge_slave", "group_fwd_mask", "0"),
  },
  { name: "a port's place for filters is deleted", commit: run("tc", "qdisc", "delete", "dev", "PORT", "clsact") },
  { name: "a port's filters are deleted", commit: run("tc", "filter", "delete", "dev", "PORT", "ingress") },
  { name: "the node's tables are flushed", commit: run("nft", "flush", "ruleset") },
  { name: "the tunnel is deleted", commit: ip("link", "delete", TUNNEL) },
  { name: "the tunnel is set down", commit: ip("link", "set", TUNNEL, "down") },
  { name: "the tunnel gets a smaller MTU", commit: ip("link", "set", TUNNEL, "mtu", "1280") },
  { name: "the tunnel gets another MAC address", commit: ip("link", "set", TUNNEL, "address", "02:11:22:33:44:66") },
  { name: "the tunnel's neighbours are flushed", commit: ip("neighbour", "flush", "dev", TUNNEL, "nud", "all") },
  {
    name: "the tunnel's forwarding entries are flushed",
    commit: (node) => {
      for (const line of show(node, "bridge", "fdb", "show", "dev", TUNNEL).split("\n")) {
        const [mac = ""] = line.split(" ");
        if (mac !== "") run("bridge", "fdb", "delete", mac, "dev", TUNNEL)(node, "");
      }
    },
  },
  { name: "our IPv4 routes are flushed", commit: ip("route", "flush", "table", "main", "proto", "107") },
  { name: "our IPv6 routes are flushed", commit: ip("-6", "route", "flush", "table", "main", "proto", "107") },
  ...["configurations", "binaries"].map((which): Harm => ({
    name: `the directory of the plugin's ${which} is removed`,
    commit: (_node, _port, files) => remove(which === "binaries" ? files.binaries : files.configurations),
  })),
  {
    name: "the plugin's configuration is emptied",
    commit: (_node, _port, { configurations }) => empty(`${configurations}/10-drawbridge.conflist`),
  },
  { name: "the plugin is removed", commit: (_node, _port, { binaries }) => remove(`${binaries}/drawbridge`) },
  { name: "the daemon's socket is removed", needsDaemon: true, commit: (_node, _port, { socket }) => remove(socket) },
  {
    name: "the socket's lock is removed",
    needsDaemon: true,
    commit: (_node, _port, { socket }) => remove(`${socket}.lock`),
  },
  {
    name: "the records are removed",
    needsDaemon: true,
    commit: (_node, _port, { state }) => remove(`${state}/attachments`),
  },
  {
    name: "the state directory is removed",
    needsDaemon: true,
    commit: (_node, _port, { state, socket }) => {
      remove(state);
      remove(path.dirname(socket));
    },
  },
];

function show(node: LabNamespace, file: string, ...args: readonly string[]): string {
  try {
    return node.exec(file, args);
  } catch {
    // The other harm has removed the link.
    return "";
  }
}

/**
 * Removes a file or directory. The daemon may create something in a directory before it is removed, as with `rm -r`.
 */
function remove(file: string): void {
  try {
    rmSync(file, { recursive: true, force: true });
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOTEMPTY")) throw error;
  }
}

/** Empties a file, unless the other harm has removed it. */
function empty(file: string): void {
  if (existsSync(file)) writeFileSync(file, "");
}

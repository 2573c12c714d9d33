import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import * as v from "valibot";
import { STATE } from "../place.ts";
import { run } from "../run.ts";
import { type Inventory, linesOf, mountsIn } from "./inventory.ts";

/** Directories of the machine in which container programs keep files; two levels of each are compared. */
const FOLDERS = ["/etc", "/opt", "/run", "/usr/libexec", "/usr/local/bin", "/var/lib", "/var/log"];

/** Names of temporary files of upstream's tests and this command. */
const TEMPORARY = /^(?:test-kuberc|ginkgo|drawbridge-(?:root|image|load)-)/;

/** Reads the parts of the machine's state that a cluster could change. */
export function readInventory(): Inventory {
  return {
    processes: clusterProcesses(),
    mounts: mountsIn(readFileSync("/proc/self/mountinfo", "utf8")),
    cgroups: cgroups(),
    links: listed("link", ({ ifname, link_type }) => `${ifname} ${link_type}`),
    addresses: listed("address", ({ ifname, addr_info }) =>
      addr_info.map(({ local, prefixlen }) => `${ifname} ${local}/${prefixlen}`).join(", "),
    ),
    routes: ["-4", "-6"].flatMap((family) => linesOf(run("ip", [family, "route", "show", "table", "all"]))),
    "rules of routing": ["-4", "-6"].flatMap((family) => linesOf(run("ip", [family, "rule", "show"]))),
    nftables: linesOf(run("nft", ["--stateless", "list", "ruleset"])),
    iptables: ["/proc/net/ip_tables_names", "/proc/net/ip6_tables_names"].flatMap((file) =>
      existsSync(file) ? linesOf(readFileSync(file, "utf8")) : [],
    ),
    sysctls: sysctls("/proc/sys"),
    files: [
      ...FOLDERS.flatMap((folder) => files(folder, 2)),
      ...files(path.join(os.homedir(), ".kube"), 3),
      ...files(os.tmpdir(), 1).filter((file) => TEMPORARY.test(path.basename(file))),
    ],
  };
}

/** Returns the processes of a cluster: in its cgroups, or with its directory in their environment or command line. */
function clusterProcesses(): readonly string[] {
  const numbers = readdirSync("/proc").filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid);
  return numbers.flatMap((number) => {
    const text = (name: string): string => readOrEmpty(path.join("/proc", number, name));
    const isOurs =
      text("cgroup").includes("drawbridge-cluster") ||
      text("environ").includes(STATE) ||
      text("cmdline").includes(STATE);
    return isOurs ? [`${number} ${text("cmdline").replaceAll("\0", " ").trim()}`] : [];
  });
}

function cgroups(): readonly string[] {
  const root = "/sys/fs/cgroup";
  const groups = files(root, 2).filter((file) => existsSync(path.join(file, "cgroup.procs")));
  return groups.filter((file) => readlinkOrEmpty(file) === "");
}

const LISTED = v.array(
  v.object({
    ifname: v.string(),
    link_type: v.string(),
    addr_info: v.optional(v.array(v.object({ local: v.string(), prefixlen: v.number() })), []),
  }),
);

function listed(
  object: "link" | "address",
  describe: (one: v.InferOutput<typeof LISTED>[number]) => string,
): readonly string[] {
  const all = v.parse(LISTED, JSON.parse(run("ip", ["-json", object, "show"])));
  return all.map(describe).filter((line) => line !== "");
}

function sysctls(folder: string): readonly string[] {
  return entriesOf(folder).flatMap((entry) => {
    const file = path.join(folder, entry.name);
    if (entry.isDirectory()) return sysctls(file);
    const value = readOrEmpty(file).trim().replaceAll(/\s+/g, " ");
    return [`${path.relative("/proc/sys", file)} ${value}`];
  });
}

function files(folder: string, depth: number): readonly string[] {
  return entriesOf(folder).flatMap((entry) => {
    const file = path.join(folder, entry.name);
    return [file, ...(entry.isDirectory() && depth > 1 ? files(file, depth - 1) : [])];
  });
}

function entriesOf(folder: string): ReturnType<typeof readEntries> {
  try {
    return readEntries(folder);
  } catch {
    // It does not exist, or has gone meanwhile.
    return [];
  }
}

function readEntries(folder: string) {
  return readdirSync(folder, { withFileTypes: true });
}

/** Returns "" for values that can only be written, and for an ended process. */
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

function readlinkOrEmpty(file: string): string {
  try {
    return readlinkSync(file);
  } catch {
    return "";
  }
}

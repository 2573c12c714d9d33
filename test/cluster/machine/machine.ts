import { readdirSync, readFileSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import process from "node:process";
import { STATE } from "../place.ts";
import { run } from "../run.ts";

/** The lines that describe each kind of the machine's state; their order does not matter. */
export type Inventory = Readonly<Record<string, readonly string[]>>;

/** Directories of the machine in which container programs keep files; two levels of each are compared. */
const FOLDERS = "/etc /opt /run /usr/libexec /usr/local/bin /var/lib /var/log";

/** Names of temporary files of upstream's tests and this command. */
const TEMPORARY = "(test-kuberc|ginkgo|drawbridge-(root|image|load)-)";

/** The commands that print the machine's state. */
const COMMANDS = {
  cgroups: "find /sys/fs/cgroup -maxdepth 3 -name cgroup.procs",
  nftables: "nft --stateless list ruleset",
  iptables: "cat /proc/net/ip_tables_names /proc/net/ip6_tables_names 2>/dev/null || true",
  links: "ip -brief link show | cut -d ' ' -f 1",
  addresses: `ip -brief address show | awk '{ $2 = ""; print }'`,
  routes: "ip -4 route show table all; ip -6 route show table all",
  "rules of routing": "ip -4 rule show; ip -6 rule show",
  sysctls: "sysctl --all 2>/dev/null || true",
  mounts: "cut -d ' ' -f 5 /proc/self/mountinfo",
  files: `find ${FOLDERS} -maxdepth 2 2>/dev/null
    find ${os.homedir()}/.kube -maxdepth 3 2>/dev/null
    find ${os.tmpdir()} -maxdepth 1 -regextype posix-extended -regex '.*/${TEMPORARY}.*' || true`,
};

/** Settings and counters that change by themselves. */
const VOLATILE =
  /^(?:fs\.(?:aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota\.)|kernel\.(?:ns_last_pid|pty\.nr|random\.)|net\.netfilter\.nf_conntrack_count)/;

/**
 * Mounts and files of named network namespaces, and of labs: other programs make them, and a cluster makes them only
 * inside its nodes.
 */
const NAMED_NAMESPACE = /^\/run\/netns\b|\/dbl-\d/;

/** Reads the parts of the machine's state that a cluster could change. */
export function readMachine(): Inventory {
  const isOthers = (kind: string, line: string): boolean =>
    NAMED_NAMESPACE.test(line) || (kind === "sysctls" && VOLATILE.test(line));
  const ofCommands = Object.entries(COMMANDS).map(([kind, command]): [string, readonly string[]] => [
    kind,
    linesOf(run("sh", ["-c", command])).filter((line) => !isOthers(kind, line)),
  ]);
  return { processes: clusterProcesses(), ...Object.fromEntries(ofCommands) };
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

/** Returns "" for an ended process. */
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return "";
  }
}

/** Returns a line for each item of a kind that was added (+) or is missing (-). */
export function differencesOf(kind: string, before: Inventory, after: Inventory): readonly string[] {
  const [old, now] = [new Set(before[kind]), new Set(after[kind])];
  return [
    ...[...old].filter((line) => !now.has(line)).map((line) => `- ${line}`),
    ...[...now].filter((line) => !old.has(line)).map((line) => `+ ${line}`),
  ];
}

/** Returns the lines of a text that are not empty, without spaces at their ends. */
function linesOf(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "");
}

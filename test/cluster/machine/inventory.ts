/** Kinds of things that a cluster could leave on the machine, in the order in which they are reported. */
export const KINDS = [
  "processes",
  "mounts",
  "cgroups",
  "links",
  "addresses",
  "routes",
  "rules of routing",
  "nftables",
  "iptables",
  "sysctls",
  "files",
] as const;

/** The lines that describe each kind; their order does not matter. */
export type Inventory = Readonly<Record<(typeof KINDS)[number], readonly string[]>>;

/** Values of /proc/sys that change by themselves: counters of the kernel, and random numbers. */
const VOLATILE_SYSCTL =
  /^(?:fs\/(?:aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota\/\S+)|kernel\/(?:ns_last_pid|pty\/nr|random\/\S+)|net\/netfilter\/nf_conntrack_count) /;

/**
 * Mounts and files of named network namespaces: other programs make them, and a cluster makes them only inside its
 * nodes.
 */
const NAMED_NAMESPACE = /^\/run\/netns\b/;

/** Returns a line for each thing that was added (+) or is missing (-) after the cluster, with its kind. */
export function compareInventories(before: Inventory, after: Inventory): readonly string[] {
  return KINDS.flatMap((kind) => {
    const old = new Set(before[kind]);
    const now = new Set(after[kind]);
    const isOurs = (line: string): boolean => !VOLATILE_SYSCTL.test(line) && !NAMED_NAMESPACE.test(line);
    return [
      ...[...old].filter((line) => !now.has(line) && isOurs(line)).map((line) => `- ${kind}: ${line}`),
      ...[...now].filter((line) => !old.has(line) && isOurs(line)).map((line) => `+ ${kind}: ${line}`),
    ];
  });
}

/** Returns the mounts in the text of /proc/PID/mountinfo: the place, type and source of each. */
export function mountsIn(mountinfo: string): readonly string[] {
  return linesOf(mountinfo).map((line) => {
    // proc_pid_mountinfo(5): optional fields end with a hyphen.
    const [own = "", ofFileSystem = ""] = line.split(" - ");
    const [type = "", source = ""] = ofFileSystem.split(" ");
    return `${own.split(" ")[4] ?? ""} ${type} ${source}`;
  });
}

/** Returns the lines of a text that are not empty, without spaces at their ends. */
export function linesOf(text: string): readonly string[] {
  return text
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "");
}

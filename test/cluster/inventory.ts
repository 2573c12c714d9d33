/** The lines that describe each kind of a machine's or node's state; their order does not matter. */
export type Inventory = Readonly<Record<string, readonly string[]>>;

/** The commands that print the state of the network and of the kernel. */
export const NETWORK_COMMANDS = {
  nftables: "nft --stateless list ruleset",
  iptables: "cat /proc/net/ip_tables_names /proc/net/ip6_tables_names 2>/dev/null || true",
  links: "ip -brief link show | cut -d ' ' -f 1",
  addresses: `ip -brief address show | awk '{ $2 = ""; print }'`,
  routes: "ip -4 route show table all; ip -6 route show table all",
  "rules of routing": "ip -4 rule show; ip -6 rule show",
  sysctls: "sysctl --all 2>/dev/null || true",
  mounts: "cut -d ' ' -f 5 /proc/self/mountinfo",
} as const;

/** Settings and counters that change by themselves. */
const VOLATILE =
  /^(?:fs\.(?:aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota\.)|kernel\.(?:ns_last_pid|pty\.nr|random\.)|net\.netfilter\.nf_conntrack_count)/;

/**
 * Reads the state that some commands print.
 *
 * @param run runs a shell command where the state is
 * @param isForeign whether a line of a kind belongs to other programs
 */
export function readInventory(
  commands: Readonly<Record<string, string>>,
  run: (command: string) => string,
  isForeign: (kind: string, line: string) => boolean,
): Inventory {
  return Object.fromEntries(
    Object.entries(commands).map(([kind, command]) => [
      kind,
      linesOf(run(command)).filter((line) => !isForeign(kind, line) && !(kind === "sysctls" && VOLATILE.test(line))),
    ]),
  );
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

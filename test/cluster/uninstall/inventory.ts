import { linesOf } from "../machine/inventory.ts";
import { enter } from "../node/processes.ts";
import type { RunningNode } from "../state.ts";

/** The places of an add-on's files on a node. Kubelet and runtime keep theirs elsewhere. */
const PLACES =
  "/etc/cni /etc/drawbridge /etc/kubernetes /opt/cni /opt/drawbridge /run/drawbridge* /var/lib/cni /var/lib/drawbridge";

/** The commands that print each kind of a node's state, in the order of the report. */
const COMMANDS = {
  nftables: "nft --stateless list ruleset",
  iptables: "cat /proc/net/ip_tables_names /proc/net/ip6_tables_names 2>/dev/null || true",
  links: "ip -brief link show",
  addresses: "ip -brief address show",
  routes: "ip -4 route show table all; ip -6 route show table all",
  "rules of routing": "ip -4 rule show; ip -6 rule show",
  queues: "tc qdisc show",
  sysctls: "sysctl --all 2>/dev/null",
  files: `find ${PLACES} '!' -type d 2>/dev/null || true`,
  mounts: "cut -d ' ' -f 5 /proc/self/mountinfo",
} as const;

type Kind = keyof typeof COMMANDS;

/** The kinds of an inventory. */
export const NODE_KINDS = Object.keys(COMMANDS) as readonly Kind[];

/** The lines that describe each kind of a node's state; their order does not matter. */
export type NodeInventory = Readonly<Record<string, readonly string[]>>;

/** Settings and counters that change by themselves. */
const VOLATILE =
  /^(?:fs\.(?:aio-nr|dentry-state|file-nr|inode-nr|inode-state|quota\.)|kernel\.(?:ns_last_pid|pty\.nr|random\.)|net\.netfilter\.nf_conntrack_count)/;

/** Mounts of pods' sandboxes and volumes, which come and go with the pods. */
const OF_PODS = /^(?:\/run\/(?:containerd|netns)|\/var\/run\/netns|\/var\/lib\/kubelet\/pods)\//;

/**
 * The runtime's records of its own loopback plugin. containerd adds the networks of a sandbox in parallel, so it may
 * write this record after it has removed a sandbox whose other network was refused, as every network is after the
 * clean-up.
 */
const OF_LOOPBACK = /^\/var\/lib\/cni\/results\/cni-loopback-/;

/** Reads a node's state. */
export function readNode({ first }: RunningNode): NodeInventory {
  return Object.fromEntries(
    Object.entries(COMMANDS).map(([kind, command]) => [
      kind,
      linesOf(enter("node", first, ["sh", "-c", command])).filter((line) => !isUnstable(kind, line)),
    ]),
  );
}

function isUnstable(kind: string, line: string): boolean {
  if (kind === "sysctls") return VOLATILE.test(line);
  if (kind === "mounts") return OF_PODS.test(line);
  return kind === "files" && OF_LOOPBACK.test(line);
}

/** Returns a line for each item of a kind that was added (+) or is missing (-). */
export function differencesOf(kind: string, before: NodeInventory, after: NodeInventory): readonly string[] {
  const [old, now] = [new Set(before[kind]), new Set(after[kind])];
  return [
    ...[...old].filter((line) => !now.has(line)).map((line) => `- ${line}`),
    ...[...now].filter((line) => !old.has(line)).map((line) => `+ ${line}`),
  ];
}

import { admits, type BenchPod, type BenchPolicy, PORTS, selects } from "./cluster.ts";

/**
 * The layout that comes to mind first, well made: a verdict map sends a packet to its pod's chain, which jumps to a
 * chain for each rule of each policy that selects the pod; each of these has a set of its own with the rule's peers.
 * Only pods of the node have chains, and a change of one pod is one run of nft with the elements that are added or
 * deleted.
 */
const TABLE = "inet obvious";

/** Returns the text that builds everything from nothing. */
export function obviousText(pods: readonly BenchPod[], policies: readonly BenchPolicy[]): string {
  const local = pods.filter(({ isLocal }) => isLocal);
  return lines([
    `add table ${TABLE}`,
    `add map ${TABLE} pods4 { type ipv4_addr : verdict ; }`,
    `add map ${TABLE} pods6 { type ipv6_addr : verdict ; }`,
    `add chain ${TABLE} forward { type filter hook forward priority filter ; policy accept ; }`,
    `add rule ${TABLE} forward ct state established,related accept`,
    `add rule ${TABLE} forward ip daddr vmap @pods4`,
    `add rule ${TABLE} forward ip6 daddr vmap @pods6`,
    ...local.flatMap((pod) => {
      const own = policies.filter((policy) => selects(policy, pod));
      if (own.length === 0) return [];
      return [
        ...own.flatMap((policy) => ruleLines(pod, policy, pods)),
        `add chain ${TABLE} ${chainOf(pod)}`,
        ...jumps(pod, own),
        `add element ${TABLE} pods4 { ${pod.address4} : jump ${chainOf(pod)} }`,
        `add element ${TABLE} pods6 { ${pod.address6} : jump ${chainOf(pod)} }`,
      ];
    }),
  ]);
}

/** Returns the text for a pod that is added or deleted elsewhere; empty where no rule of a local pod names it. */
export function obviousPodText(
  verb: "add" | "delete",
  pod: BenchPod,
  local: readonly BenchPod[],
  policies: readonly BenchPolicy[],
): string {
  const admitting = policies.filter((policy) => admits(policy, pod));
  return lines(
    local.flatMap((own) =>
      admitting
        .filter((policy) => selects(policy, own))
        .flatMap((policy) => [
          `${verb} element ${TABLE} ${setOf(own, policy, 4)} { ${pod.address4} }`,
          `${verb} element ${TABLE} ${setOf(own, policy, 6)} { ${pod.address6} }`,
        ]),
    ),
  );
}

/** Returns the text for a new policy that selects a local pod, which has some already. */
export function obviousPolicyText(pod: BenchPod, policy: BenchPolicy, pods: readonly BenchPod[]): string {
  return lines([
    ...ruleLines(pod, policy, pods),
    `insert rule ${TABLE} ${chainOf(pod)} jump ${ruleChain(pod, policy)}`,
  ]);
}

/**
 * Returns the text for a policy's removal: without the handle of its rule, which nobody kept, the pod's chain is
 * written again.
 */
export function obviousPolicyRemoval(pod: BenchPod, gone: BenchPolicy, left: readonly BenchPolicy[]): string {
  return lines([
    `flush chain ${TABLE} ${chainOf(pod)}`,
    ...jumps(pod, left),
    `delete chain ${TABLE} ${ruleChain(pod, gone)}`,
    `delete set ${TABLE} ${setOf(pod, gone, 4)}`,
    `delete set ${TABLE} ${setOf(pod, gone, 6)}`,
  ]);
}

function ruleLines(pod: BenchPod, policy: BenchPolicy, pods: readonly BenchPod[]): readonly string[] {
  const admitted = pods.filter((peer) => admits(policy, peer));
  const ports = PORTS.map(({ protocol, port }) => `${protocol.toLowerCase()} . ${port}`).join(", ");
  const chain = ruleChain(pod, policy);
  return [
    `add set ${TABLE} ${setOf(pod, policy, 4)} { type ipv4_addr ; }`,
    `add set ${TABLE} ${setOf(pod, policy, 6)} { type ipv6_addr ; }`,
    ...elements(
      setOf(pod, policy, 4),
      admitted.map(({ address4 }) => address4),
    ),
    ...elements(
      setOf(pod, policy, 6),
      admitted.map(({ address6 }) => address6),
    ),
    `add chain ${TABLE} ${chain}`,
    `add rule ${TABLE} ${chain} ip saddr @${setOf(pod, policy, 4)} meta l4proto . th dport { ${ports} } counter accept`,
    `add rule ${TABLE} ${chain} ip6 saddr @${setOf(pod, policy, 6)} meta l4proto . th dport { ${ports} } counter accept`,
  ];
}

function jumps(pod: BenchPod, policies: readonly BenchPolicy[]): readonly string[] {
  return [
    ...policies.map((policy) => `add rule ${TABLE} ${chainOf(pod)} jump ${ruleChain(pod, policy)}`),
    `add rule ${TABLE} ${chainOf(pod)} counter drop`,
  ];
}

function elements(set: string, addresses: readonly string[]): readonly string[] {
  return addresses.length === 0 ? [] : [`add element ${TABLE} ${set} { ${addresses.join(", ")} }`];
}

function chainOf({ number }: BenchPod): string {
  return `pod-${number}`;
}

function ruleChain({ number }: BenchPod, { name }: BenchPolicy): string {
  return `pod-${number}-${name}-0`;
}

function setOf({ number }: BenchPod, { name }: BenchPolicy, family: 4 | 6): string {
  return `pod-${number}-${name}-0-from${family}`;
}

function lines(commands: readonly string[]): string {
  return commands.map((command) => `${command}\n`).join("");
}

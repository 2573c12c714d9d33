import { createHash } from "node:crypto";
import { admits, type BenchPod, type BenchPolicy, PORTS, selects } from "./cluster.ts";

/**
 * The rules that kube-router writes for NetworkPolicies with nftables (pkg/controllers/netpol/npc_nftables.go): a table
 * for each family, in it a chain and sets for each policy of the cluster, a chain for each pod of the node, and five
 * rules for each such pod in the three base chains. Every event is a full sync under a new version, by one run of nft
 * for each policy, for each pod and each family.
 *
 * Parts that do not serve policies are omitted (NodePorts, external addresses), and old chains of policies are deleted
 * once nothing jumps to them any more; kube-router tries before, fails, and keeps them.
 */
export type Family = 4 | 6;

export const FAMILIES: readonly Family[] = [4, 6];

/** Returns the table of a family, such as "ip kube-router-filter-ipv4". */
export function tableOf(family: Family): string {
  return family === 4 ? "ip kube-router-filter-ipv4" : "ip6 kube-router-filter-ipv6";
}

const HOOKS = { INPUT: "input", FORWARD: "forward", OUTPUT: "output" } as const;
const CHAINS = ["INPUT", "FORWARD", "OUTPUT"] as const;
const SERVICE_CIDRS = { 4: "10.96.0.0/12", 6: "fd00:96::/112" } as const;
const COMMON = "KUBE-NWPLCY-COMMON";
const DEFAULT = "KUBE-NWPLCY-DEFAULT";
/** The packets that are allowed before any policy (utils.CommonICMPRules). */
const ICMP = {
  4: ["icmp type echo-request", "icmp type destination-unreachable", "icmp type time-exceeded"],
  6: [
    "icmpv6 type destination-unreachable",
    "icmpv6 type time-exceeded",
    "icmpv6 type echo-request",
    "icmpv6 type nd-router-solicit",
    "icmpv6 type nd-router-advert",
    "icmpv6 type nd-neighbor-solicit",
    "icmpv6 type nd-neighbor-advert",
    "icmpv6 type echo-reply",
  ],
} as const;

/** A policy with the pods that it selects and the peers that it allows. */
export interface ResolvedPolicy {
  readonly policy: BenchPolicy;
  readonly targets: readonly BenchPod[];
  readonly peers: readonly BenchPod[];
}

export function resolvePolicy(policy: BenchPolicy, pods: readonly BenchPod[]): ResolvedPolicy {
  return {
    policy,
    targets: pods.filter((pod) => selects(policy, pod)),
    peers: pods.filter((pod) => admits(policy, pod)),
  };
}

/** Returns the runs of nft before policies: the base chains, emptied, the default chain, and the common one. */
export function baseTexts(family: Family): readonly string[] {
  const table = tableOf(family);
  const address = family === 4 ? "ip" : "ip6";
  return [
    lines([
      `add table ${table}`,
      ...CHAINS.flatMap((chain) => [
        `add chain ${table} ${baseChain(chain)} { type filter hook ${HOOKS[chain]} priority 0 ; }`,
        `flush chain ${table} ${baseChain(chain)}`,
      ]),
    ]),
    lines([
      `add rule ${table} ${baseChain("INPUT")} ${address} daddr ${SERVICE_CIDRS[family]} counter return comment "allow traffic to primary/secondary cluster IP range"`,
    ]),
    lines([
      `add chain ${table} ${DEFAULT}`,
      `flush chain ${table} ${DEFAULT}`,
      `add rule ${table} ${DEFAULT} counter meta mark set mark or 0x10000 comment "mark traffic matching a network policy"`,
    ]),
    lines([
      `add chain ${table} ${COMMON}`,
      `flush chain ${table} ${COMMON}`,
      `add rule ${table} ${COMMON} ct state invalid counter drop comment "drop invalid state for pod"`,
      `add rule ${table} ${COMMON} ct state established,related counter accept comment "rule for stateful firewall for pod"`,
      ...ICMP[family].map(
        (match) => `add rule ${table} ${COMMON} ${match} counter accept comment "allow icmp messages"`,
      ),
    ]),
  ];
}

/** Returns the run for a policy: its chain and its sets, declared or emptied, and filled. */
export function policyText(family: Family, version: string, { policy, targets, peers }: ResolvedPolicy): string {
  const table = tableOf(family);
  const chain = policyChain(policy, version, family);
  const destinations = `KUBE-DST-${hashed(`${policy.namespace}${policy.name}${family}`)}`;
  const sources = `KUBE-SRC-${hashed(`${policy.namespace}${policy.name}ingressrule0${family}pod`)}`;
  const address = family === 4 ? "ip" : "ip6";
  const comment = `ACCEPT traffic from source pods to dest pods selected by policy name ${policy.name} namespace ${policy.namespace}`;
  return lines([
    `add chain ${table} ${chain} { comment "chain for network policy ${policy.namespace}/${policy.name}" ; }`,
    `flush chain ${table} ${chain}`,
    ...setLines(family, destinations, targets),
    ...setLines(family, sources, peers),
    ...PORTS.map(
      ({ protocol, port }) =>
        `add rule ${table} ${chain} ${address} saddr @${sources} ${address} daddr @${destinations} ${protocol.toLowerCase()} dport ${port} counter meta mark set meta mark or 0x10000 return comment "${comment}"`,
    ),
  ]);
}

/** Returns the run for a pod of the node: its chain, and the rules that jump to it. */
export function podText(family: Family, version: string, pod: BenchPod, policies: readonly BenchPolicy[]): string {
  const table = tableOf(family);
  const chain = podChain(pod, version);
  const [key, address] = family === 4 ? ["ip", pod.address4] : ["ip6", pod.address6];
  const own = policies.filter((policy) => selects(policy, pod));
  const rule = (to: string, text: string): string => `add rule ${table} ${to} ${text}`;
  return lines([
    `add chain ${table} ${chain} { comment "pod firewall chain for ${pod.namespace}/${pod.name}" ; }`,
    `flush chain ${table} ${chain}`,
    rule(chain, `counter jump ${COMMON} comment "common bi-directional traffic policy rules"`),
    rule(
      chain,
      `fib saddr type local ${key} daddr ${address} counter accept comment "permit traffic to pods when source is the pod's local node"`,
    ),
    ...own.map((policy) =>
      rule(
        chain,
        `${key} daddr ${address} counter jump ${policyChain(policy, version, family)} comment "run through nw policy ${policy.name}"`,
      ),
    ),
    rule(
      chain,
      `${key} saddr ${address} counter jump ${DEFAULT} comment "run through default egress network policy chain"`,
    ),
    ...(own.length > 0
      ? []
      : [
          rule(
            chain,
            `${key} daddr ${address} counter jump ${DEFAULT} comment "run through default ingress network policy chain"`,
          ),
        ]),
    rule(
      chain,
      `meta mark and 0x10000 == 0x0 limit rate 10/minute burst 10 packets log group 100 comment "log dropped traffic POD name:${pod.name}"`,
    ),
    rule(
      chain,
      `meta mark and 0x10000 == 0x0 counter reject comment "REJECT traffic destined for POD name:${pod.name}"`,
    ),
    rule(
      chain,
      `meta mark set meta mark and 0xfffeffff comment "reset mark to let traffic pass through rest of the chains"`,
    ),
    rule(
      chain,
      `meta mark set meta mark or 0x20000 comment "set mark to ACCEPT traffic that comply to network policies"`,
    ),
    ...(["FORWARD", "OUTPUT"] as const).map((base) =>
      rule(
        baseChain(base),
        `${key} daddr ${address} counter jump ${chain} comment "jump traffic to POD name:${pod.name} ns: ${pod.namespace} to chain ${chain}"`,
      ),
    ),
    ...CHAINS.map((base) =>
      rule(
        baseChain(base),
        `${key} saddr ${address} counter jump ${chain} comment "jump traffic from POD name:${pod.name} ns: ${pod.namespace} to chain ${chain}"`,
      ),
    ),
  ]);
}

/** Returns the last run, which accepts packets that have passed. */
export function acceptText(family: Family): string {
  return lines(
    CHAINS.map(
      (chain) =>
        `add rule ${tableOf(family)} ${baseChain(chain)} meta mark and 0x20000 == 0x20000 counter accept comment "explicitly ACCEPT traffic that comply to network policies"`,
    ),
  );
}

/** Returns the run that deletes the chains of an earlier version. */
export function collectText(
  family: Family,
  version: string,
  pods: readonly BenchPod[],
  policies: readonly BenchPolicy[],
): string {
  return lines([
    ...pods.map((pod) => `delete chain ${tableOf(family)} ${podChain(pod, version)}`),
    ...policies.map((policy) => `delete chain ${tableOf(family)} ${policyChain(policy, version, family)}`),
  ]);
}

function setLines(family: Family, set: string, pods: readonly BenchPod[]): readonly string[] {
  const table = tableOf(family);
  return [
    `add set ${table} ${set} { type ipv${family}_addr ; comment "set for network policy" ; }`,
    `flush set ${table} ${set}`,
    ...pods.map((pod) => `add element ${table} ${set} { ${family === 4 ? pod.address4 : pod.address6} }`),
  ];
}

function baseChain(chain: (typeof CHAINS)[number]): string {
  return `KUBE-ROUTER-${chain}`;
}

function policyChain({ namespace, name }: BenchPolicy, version: string, family: Family): string {
  return `KUBE-NWPLCY-${hashed(`${namespace}${name}${version}IPv${family}`)}`;
}

function podChain({ namespace, name }: BenchPod, version: string): string {
  return `KUBE-POD-FW-${hashed(`${namespace}${name}${version}`)}`;
}

/** Returns sixteen characters of base32 of SHA-256 (networkPolicyChainName, podFirewallChainName). */
function hashed(name: string): string {
  const bits = [...createHash("sha256").update(name).digest().subarray(0, 10)]
    .map((byte) => byte.toString(2).padStart(8, "0"))
    .join("");
  const groups = bits.match(/.{5}/g) ?? [];
  return groups.map((group) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".charAt(Number.parseInt(group, 2))).join("");
}

function lines(commands: readonly string[]): string {
  return commands.map((command) => `${command}\n`).join("");
}

import { createHash } from "node:crypto";
import { type BenchService, NAMESPACE, POD_CIDR, PORT_NAME, SERVICE_CIDR, SERVICE_PORT } from "./cluster.ts";

/**
 * The two layouts of Services in kube-proxy's nftables mode (pkg/proxy/nftables/proxier.go).
 *
 * - `chains`, to 1.35: a chain for each Service and each endpoint, and a verdict map in each Service's.
 * - `maps`, from 1.36: a chain for each Service, with a NAT statement by an anonymous map of its endpoints.
 */
export type Layout = "chains" | "maps";

export const LAYOUTS: readonly Layout[] = ["chains", "maps"];

/** The names of the layouts for people. */
export const layoutNames: Readonly<Record<Layout, string>> = {
  chains: "kube-proxy ≤ 1.35",
  maps: "kube-proxy 1.36+",
};

const TABLE = "ip kube-proxy";
const NODE_ADDRESS = "192.0.2.2";
const MARK = "0x4000";
/** The length of nft's longest name without the part before it (proxier.go, chainNameBaseLengthMax). */
const LONGEST_NAME = 230;

/**
 * Returns the text that kube-proxy writes before any Service (setupNFTables), for nodeport-addresses `primary` and a
 * cluster CIDR: the same objects and rules; the order of its lines is ours.
 */
export function baseText(layout: Layout): string {
  return lines([...tableLines(layout), ...sharedRules(), ...(layout === "chains" ? oldRules() : newRules())]);
}

/**
 * Returns the text that kube-proxy writes for a new Service (syncProxyRules) with cluster policy, without affinity,
 * whose endpoints are elsewhere.
 */
export function serviceText(layout: Layout, service: BenchService): string {
  const chain = serviceChain(service);
  return lines([
    ...(layout === "chains" ? service.endpoints.flatMap((endpoint) => madeAnew(endpointChain(service, endpoint))) : []),
    ...madeAnew(chain),
    `add element ${TABLE} cluster-ips { ${service.address} }`,
    `add element ${TABLE} service-ips { ${service.address} . udp . ${SERVICE_PORT} : goto ${chain} }`,
    ...serviceRules(layout, service),
  ]);
}

/** Returns the text that kube-proxy writes when only a Service's endpoints change (a partial sync). */
export function endpointsText(layout: Layout, before: BenchService, after: BenchService): string {
  const gone = before.endpoints.filter((endpoint) => !after.endpoints.includes(endpoint));
  return lines([
    ...(layout === "chains" ? after.endpoints.flatMap((endpoint) => madeAnew(endpointChain(after, endpoint))) : []),
    ...madeAnew(serviceChain(after)),
    ...serviceRules(layout, after),
    // A chain that is not used any more is emptied, and deleted by a later sync.
    ...(layout === "chains" ? gone.map((endpoint) => `flush chain ${TABLE} ${endpointChain(before, endpoint)}`) : []),
  ]);
}

function serviceRules(layout: Layout, service: BenchService): readonly string[] {
  const rule = (chain: string, text: string): string => `add rule ${TABLE} ${chain} ${text}`;
  const chain = serviceChain(service);
  const { address, endpoints } = service;
  const draw = `numgen random mod ${endpoints.length}`;
  if (layout === "maps") {
    const targets = endpoints.map((endpoint, index) => `${index} : ${endpoint} . ${SERVICE_PORT}`);
    return [rule(chain, `meta l4proto udp dnat ip addr . port to ${draw} map { ${targets.join(" , ")} }`)];
  }
  const targets = endpoints.map((endpoint, index) => `${index} : goto ${endpointChain(service, endpoint)}`);
  return [
    rule(chain, `ip daddr ${address} ip saddr != ${POD_CIDR} jump mark-for-masquerade`),
    rule(chain, `${draw} vmap { ${targets.join(" , ")} }`),
    ...endpoints.flatMap((endpoint) => [
      rule(endpointChain(service, endpoint), `ip saddr ${endpoint} jump mark-for-masquerade`),
      rule(endpointChain(service, endpoint), `meta l4proto udp dnat to ${endpoint}:${SERVICE_PORT}`),
    ]),
  ];
}

/** Returns the name of a Service's chain: "service-ULMVA6XW-ns1/svc1/tcp/p80". */
function serviceChain({ name }: BenchService): string {
  return `service-${hashed(`${NAMESPACE}/${name}/udp/${PORT_NAME}`)}`;
}

function endpointChain({ name }: BenchService, endpoint: string): string {
  return `endpoint-${hashed(`${NAMESPACE}/${name}/udp/${PORT_NAME}__${endpoint}/${SERVICE_PORT}`)}`;
}

/** Returns eight characters of base32 of SHA-256, and the name itself (proxier.go, hashAndTruncate). */
export function hashed(name: string): string {
  const whole = `${base32(createHash("sha256").update(name).digest())}-${name}`;
  return whole.length > LONGEST_NAME ? `${whole.slice(0, LONGEST_NAME - 3)}...` : whole;
}

function base32(bytes: Uint8Array): string {
  const bits = [...bytes.subarray(0, 5)].map((byte) => byte.toString(2).padStart(8, "0")).join("");
  const groups = bits.match(/.{5}/g) ?? [];
  return groups.map((group) => "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".charAt(Number.parseInt(group, 2))).join("");
}

function madeAnew(chain: string): readonly string[] {
  return [`add chain ${TABLE} ${chain}`, `flush chain ${TABLE} ${chain}`];
}

function lines(commands: readonly string[]): string {
  return commands.map((command) => `${command}\n`).join("");
}

function tableLines(layout: Layout): readonly string[] {
  const isOld = layout === "chains";
  const base: readonly (readonly [name: string, type: string, hook: string, priority: number])[] = [
    [isOld ? "filter-prerouting" : "filter-prerouting-pre-dnat", "filter", "prerouting", -110],
    ["filter-input", "filter", "input", isOld ? -110 : 0],
    ["filter-forward", "filter", "forward", isOld ? -110 : 0],
    isOld ? ["filter-output", "filter", "output", -110] : ["filter-output-pre-dnat", "filter", "output", -110],
    isOld ? ["filter-output-post-dnat", "filter", "output", -90] : ["filter-output", "filter", "output", 0],
    ["nat-prerouting", "nat", "prerouting", -100],
    ["nat-output", "nat", "output", -100],
    ["nat-postrouting", "nat", "postrouting", 100],
  ];
  const further = [
    "nodeport-endpoints-check",
    "service-endpoints-check",
    "firewall-check",
    "services",
    "masquerading",
    "cluster-ips-check",
    "reject-chain",
    ...(isOld ? ["mark-for-masquerade"] : []),
  ];
  const frontend = "ipv4_addr . inet_proto . inet_service";
  return [
    `add table ${TABLE} { comment "rules for kube-proxy" ; }`,
    ...base.map(
      ([name, type, hook, priority]) =>
        `add chain ${TABLE} ${name} { type ${type} hook ${hook} priority ${priority} ; }`,
    ),
    ...further.map((name) => `add chain ${TABLE} ${name}`),
    `add set ${TABLE} cluster-ips { type ipv4_addr ; comment "Active ClusterIPs" ; }`,
    `add set ${TABLE} nodeport-ips { type ipv4_addr ; comment "IPs that accept NodePort traffic" ; }`,
    `add element ${TABLE} nodeport-ips { ${NODE_ADDRESS} }`,
    ...(isOld
      ? []
      : [
          `add set ${TABLE} hairpin-connections { type ipv4_addr . ${frontend} ; comment "service hairpin connections" ; }`,
        ]),
    `add map ${TABLE} firewall-ips { type ${frontend} : verdict ; comment "destinations that are subject to LoadBalancerSourceRanges" ; }`,
    `add map ${TABLE} no-endpoint-nodeports { type inet_proto . inet_service : verdict ; comment "vmap to drop or reject packets to service nodeports with no endpoints" ; }`,
    `add map ${TABLE} no-endpoint-services { type ${frontend} : verdict ; comment "vmap to drop or reject packets to services with no endpoints" ; }`,
    `add map ${TABLE} service-ips { type ${frontend} : verdict ; comment "ClusterIP, ExternalIP and LoadBalancer IP traffic" ; }`,
    `add map ${TABLE} service-nodeports { type inet_proto . inet_service : verdict ; comment "NodePort traffic" ; }`,
  ];
}

function sharedRules(): readonly string[] {
  const frontend = "ip daddr . meta l4proto . th dport";
  return [
    ["filter-forward", "ct state new jump service-endpoints-check"],
    ["filter-forward", "ct state new jump cluster-ips-check"],
    ["filter-input", "ct state new jump nodeport-endpoints-check"],
    ["filter-input", "ct state new jump service-endpoints-check"],
    ["filter-output", "ct state new jump service-endpoints-check"],
    ["nat-output", "jump services"],
    ["nat-postrouting", "jump masquerading"],
    ["nat-prerouting", "jump services"],
    ["cluster-ips-check", 'ip daddr @cluster-ips reject comment "Reject traffic to invalid ports of ClusterIPs"'],
    ["cluster-ips-check", `ip daddr { ${SERVICE_CIDR} } drop comment "Drop traffic to unallocated ClusterIPs"`],
    ["firewall-check", `${frontend} vmap @firewall-ips`],
    ["nodeport-endpoints-check", "ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports"],
    ["reject-chain", "reject"],
    ["service-endpoints-check", `${frontend} vmap @no-endpoint-services`],
  ].map(([chain, rule]) => `add rule ${TABLE} ${chain} ${rule}`);
}

function oldRules(): readonly string[] {
  return [
    ["filter-prerouting", "ct state new jump firewall-check"],
    ["filter-output", "ct state new jump firewall-check"],
    ["filter-output-post-dnat", "ct state new jump cluster-ips-check"],
    ["mark-for-masquerade", `mark set mark or ${MARK}`],
    ["masquerading", `mark and ${MARK} == 0 return`],
    ["masquerading", `mark set mark xor ${MARK}`],
    ["masquerading", "masquerade fully-random"],
    ...dispatch(),
  ].map(([chain, rule]) => `add rule ${TABLE} ${chain} ${rule}`);
}

function newRules(): readonly string[] {
  return [
    ["filter-prerouting-pre-dnat", "ct state new jump firewall-check"],
    ["filter-output-pre-dnat", "ct state new jump firewall-check"],
    ["filter-output", "ct state new jump cluster-ips-check"],
    ["masquerading", `mark and ${MARK} != 0 mark set mark xor ${MARK} masquerade fully-random`],
    [
      "masquerading",
      "ct status dnat ip saddr . ip daddr . meta l4proto . th dport @hairpin-connections masquerade fully-random",
    ],
    [
      "services",
      `ip daddr @cluster-ips ip saddr != ${POD_CIDR} mark set mark or ${MARK} comment "masquerade clusterIP traffic from outside cluster"`,
    ],
    ...dispatch(),
  ].map(([chain, rule]) => `add rule ${TABLE} ${chain} ${rule}`);
}

function dispatch(): readonly (readonly [chain: string, rule: string])[] {
  return [
    ["services", "ip daddr . meta l4proto . th dport vmap @service-ips"],
    ["services", "ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports"],
  ];
}

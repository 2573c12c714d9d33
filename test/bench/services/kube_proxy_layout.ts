import { createHash } from "node:crypto";
import { type BenchService, NAMESPACE, POD_CIDR, PORT_NAME, SERVICE_CIDR, SERVICE_PORT } from "./cluster.ts";

/**
 * The layout's name for people: that of kube-proxy's nftables mode from 1.36 on (pkg/proxy/nftables/proxier.go), with a
 * chain for each Service and in it a NAT statement by an anonymous map of the endpoints.
 */
export const PEER = "kube-proxy 1.36+";

const TABLE = "ip kube-proxy";
const NODE_ADDRESS = "192.0.2.2";
const MARK = "0x4000";
/** The length of nft's longest name without the part before it (proxier.go, chainNameBaseLengthMax). */
const LONGEST_NAME = 230;

/**
 * Returns the text that kube-proxy writes before any Service (setupNFTables), for nodeport-addresses `primary` and a
 * cluster CIDR: the same objects and rules; the order of its lines is ours.
 */
export function baseText(): string {
  return lines([...tableLines(), ...rules()]);
}

/**
 * Returns the text that kube-proxy writes for a new Service (syncProxyRules) with cluster policy, without affinity,
 * whose endpoints are elsewhere.
 */
export function serviceText(service: BenchService): string {
  const chain = serviceChain(service);
  return lines([
    ...madeAnew(chain),
    `add element ${TABLE} cluster-ips { ${service.address} }`,
    `add element ${TABLE} service-ips { ${service.address} . udp . ${SERVICE_PORT} : goto ${chain} }`,
    serviceRule(service),
  ]);
}

/** Returns the text that kube-proxy writes when only a Service's endpoints change (a partial sync). */
export function endpointsText(service: BenchService): string {
  return lines([...madeAnew(serviceChain(service)), serviceRule(service)]);
}

function serviceRule(service: BenchService): string {
  const { endpoints } = service;
  const targets = endpoints.map((endpoint, index) => `${index} : ${endpoint} . ${SERVICE_PORT}`);
  const target = `numgen random mod ${endpoints.length} map { ${targets.join(" , ")} }`;
  return `add rule ${TABLE} ${serviceChain(service)} meta l4proto udp dnat ip addr . port to ${target}`;
}

/** Returns the name of a Service's chain: "service-ULMVA6XW-ns1/svc1/tcp/p80". */
function serviceChain({ name }: BenchService): string {
  return `service-${hashed(`${NAMESPACE}/${name}/udp/${PORT_NAME}`)}`;
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

function tableLines(): readonly string[] {
  const base: readonly (readonly [name: string, type: string, hook: string, priority: number])[] = [
    ["filter-prerouting-pre-dnat", "filter", "prerouting", -110],
    ["filter-input", "filter", "input", 0],
    ["filter-forward", "filter", "forward", 0],
    ["filter-output-pre-dnat", "filter", "output", -110],
    ["filter-output", "filter", "output", 0],
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
    `add set ${TABLE} hairpin-connections { type ipv4_addr . ${frontend} ; comment "service hairpin connections" ; }`,
    `add map ${TABLE} firewall-ips { type ${frontend} : verdict ; comment "destinations that are subject to LoadBalancerSourceRanges" ; }`,
    `add map ${TABLE} no-endpoint-nodeports { type inet_proto . inet_service : verdict ; comment "vmap to drop or reject packets to service nodeports with no endpoints" ; }`,
    `add map ${TABLE} no-endpoint-services { type ${frontend} : verdict ; comment "vmap to drop or reject packets to services with no endpoints" ; }`,
    `add map ${TABLE} service-ips { type ${frontend} : verdict ; comment "ClusterIP, ExternalIP and LoadBalancer IP traffic" ; }`,
    `add map ${TABLE} service-nodeports { type inet_proto . inet_service : verdict ; comment "NodePort traffic" ; }`,
  ];
}

function rules(): readonly string[] {
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
    ["services", "ip daddr . meta l4proto . th dport vmap @service-ips"],
    ["services", "ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports"],
  ].map(([chain, rule]) => `add rule ${TABLE} ${chain} ${rule}`);
}

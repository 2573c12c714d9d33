import { type Place, textsOf } from "../policy/lab/place.ts";

/** A port of a cluster IP with one endpoint, in all protocols. */
export interface ProxiedPort {
  readonly clusterIps: readonly [string, string];
  readonly port: number;
  readonly endpoint: Place;
  readonly targetPort: number;
}

const FAMILIES = [
  { family: "ip", type: "ipv4_addr", podRange: "10.244.0.0/16" },
  { family: "ip6", type: "ipv6_addr", podRange: "fd00:244::/32" },
] as const;

/**
 * Returns the rules of kube-proxy's nftables mode, of both families, for nft: its hooks, priorities, marks and
 * masquerade for one cluster IP (pkg/proxy/nftables/proxier.go). When they are loaded again, they replace the earlier
 * ones.
 */
export function kubeProxyRules({ clusterIps, port, endpoint, targetPort }: ProxiedPort): string {
  return FAMILIES.map(({ family, type, podRange }, index) => {
    const [ip, target] = [clusterIps[index], textsOf(endpoint)[index]];
    const to = family === "ip" ? target : `[${target}]`;
    return `
table ${family} kube-proxy { comment "rules for kube-proxy"; }
delete table ${family} kube-proxy
table ${family} kube-proxy {
  comment "rules for kube-proxy"
  map service-ips {
    type ${type} . inet_proto . inet_service : verdict
    elements = { ${["tcp", "udp", "sctp"].map((one) => `${ip} . ${one} . ${port} : goto service`).join(", ")} }
  }
  chain mark-for-masquerade { mark set mark or 0x4000; }
  chain endpoint {
    ${family} saddr ${target} jump mark-for-masquerade
    meta l4proto tcp dnat to ${to}:${targetPort}
    meta l4proto udp dnat to ${to}:${targetPort}
    meta l4proto sctp dnat to ${to}:${targetPort}
  }
  chain service {
    ${family} daddr ${ip} ${family} saddr != ${podRange} jump mark-for-masquerade
    numgen random mod 1 vmap { 0 : goto endpoint }
  }
  chain services { ${family} daddr . meta l4proto . th dport vmap @service-ips; }
  chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
  chain nat-output { type nat hook output priority -100; jump services; }
  chain masquerading {
    mark and 0x4000 == 0 return
    mark set mark xor 0x4000
    masquerade fully-random
  }
  chain nat-postrouting { type nat hook postrouting priority srcnat; jump masquerading; }
}
`;
  }).join("");
}

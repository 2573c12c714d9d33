import type { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { isInRuleset, type RulesetPlace } from "../../kernel/nftables/decode/in_ruleset.ts";
import { type Check, seen } from "../problems/check.ts";

/** Where kube-proxy has its rules: in nftables mode, and by iptables-nft in its iptables and IPVS modes (pkg/proxy). */
const PLACES: readonly RulesetPlace[] = (["ip", "ip6"] as const).flatMap((family) => [
  { family, name: "kube-proxy" },
  { family, name: "nat", chain: "KUBE-SERVICES" },
]);
const IPVS_DEVICE = "kube-ipvs0";

export const kubeProxy: Check = {
  id: "kube-proxy",
  summary: "No rules of a kube-proxy are left.",
  needs: ["kubeProxy", "links"],
  examine: ({ kubeProxy: found, links }) => {
    const places = [...(seen(found) ?? [])];
    if ((seen(links) ?? []).some(({ name }) => name === IPVS_DEVICE)) places.push(`link ${IPVS_DEVICE}`);
    if (places.length === 0) return [];
    return [
      {
        severity: "warning",
        what: `rules of kube-proxy are in ${places.join(", ")}`,
        why: "they translate packets to Services, too, also to endpoints that are long gone when no kube-proxy runs",
        way: "kubectl -n kube-system delete daemonset kube-proxy, then on the node: kube-proxy --cleanup (or reboot it); to keep kube-proxy set services: false",
      },
    ];
  },
};

/** Returns the places of kube-proxy's rules. It does not see those of iptables-legacy. @throws NetlinkError */
export function kubeProxyPlaces(socket: NetlinkSocket): readonly string[] {
  return PLACES.filter((place) => isInRuleset(socket, place)).map(
    ({ family, name, chain }) => `${family} ${name}${chain === undefined ? "" : ` ${chain}`}`,
  );
}

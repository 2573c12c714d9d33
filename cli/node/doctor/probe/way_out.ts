import type { TraceEvent } from "../../../../kernel/nftables/decode/trace.ts";
import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";

type Owner = "firewalld" | "ufw" | "Docker" | "Calico" | "iptables-nft" | "ebtables-nft";

/**
 * Returns the program that made a chain, recognized by its names for tables and chains.
 *
 * @param chains all chains of the table
 */
export function ownerOf({ family, table, chain }: TraceEvent, chains: readonly string[]): Owner | undefined {
  if (table === "firewalld") return "firewalld";
  if (table !== "filter" || family === "inet") return undefined;
  if (family === "bridge") return "ebtables-nft";
  const has = (pattern: RegExp): boolean => chains.some((name) => pattern.test(name));
  if (has(/^cali-/)) return "Calico";
  if (has(/^ufw6?-/)) return "ufw";
  return has(/^DOCKER/) && /^(FORWARD$|DOCKER)/.test(chain) ? "Docker" : "iptables-nft";
}

/** Returns the command by which packets of pods, or of the tunnel, pass a chain. */
export function wayOut(
  { family, table, chain }: TraceEvent,
  owner: Owner | undefined,
  bridge: string,
  isTunnel: boolean,
): string {
  const program = family === "ip6" ? "ip6tables" : "iptables";
  switch (owner) {
    case "firewalld":
      return isTunnel
        ? `firewall-cmd --add-port=${TUNNEL.port}/udp --permanent && firewall-cmd --reload`
        : `firewall-cmd --permanent --zone=trusted --add-interface=${bridge} && firewall-cmd --reload`;
    case "ufw":
      return isTunnel
        ? `ufw allow ${TUNNEL.port}/udp`
        : `ufw allow in on ${bridge} && ufw route allow in on ${bridge} && ufw route allow out on ${bridge}`;
    case "Docker":
      return `${program} -I DOCKER-USER -i ${bridge} -j ACCEPT; ${program} -I DOCKER-USER -o ${bridge} -j ACCEPT; or "ip-forward-no-drop": true in /etc/docker/daemon.json and ${program} -P FORWARD ACCEPT`;
    case "Calico":
      return `remove what is left of it, if it is gone: ${program}-save | grep -v cali | ${program}-restore; or reboot the node`;
    case "iptables-nft":
      if (isTunnel) return `${program} -I ${chain} -p udp --dport ${TUNNEL.port} -j ACCEPT`;
      return `${program} -I ${chain} -i ${bridge} -j ACCEPT, and the same with -o in FORWARD and OUTPUT; of Docker: "ip-forward-no-drop": true in /etc/docker/daemon.json`;
    case "ebtables-nft":
      return `ebtables -I ${chain} -i dbv+ -j ACCEPT, or the same with -o`;
    case undefined: {
      const match = isTunnel ? `udp dport ${TUNNEL.port}` : `iifname ${family === "bridge" ? `'"dbv*"'` : bridge}`;
      return `nft insert rule ${family} ${table} ${chain} ${match} accept${isTunnel ? "" : ", or the same with oifname"}`;
    }
  }
}

import { tryParseAddress } from "../../kernel/ip/address.ts";
import { DNS_PORT } from "../../objects/domain_name.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { healthListen } from "../configuration/own_ports.ts";
import { TUNNEL } from "../routes/tunnel.ts";
import {
  API_SERVER,
  type ConfiguredSockets,
  type ProtectedPort,
  type ProtectedSocket,
} from "../../objects/socket_refusal.ts";

type Fields =
  | "apiServer"
  | "encapsulation"
  | "healthAddress"
  | "metricsAddress"
  | "nodeLocalDNS"
  | "protectedPorts"
  | "protectedSockets"
  | "services";

/** The programs, for messages, that listen on the ports protected by default. */
const USUAL_OWNERS: Readonly<Record<number, string>> = {
  2379: "etcd",
  2380: "etcd",
  2381: "etcd",
  10248: "the kubelet",
  10249: "the proxy of Services",
  10250: "the kubelet",
  10256: "the proxy of Services",
  10257: "the controller manager",
  10258: "the cloud's controller manager",
  10259: "the scheduler",
};

/**
 * Returns the ports and sockets that the configuration protects: `protectedPorts`, the daemon's own ports, the tunnel's
 * where there may be one, the API server where its address is numeric, the node's own DNS server, and
 * `protectedSockets`.
 */
export function configuredSockets(configuration: Pick<Configuration, Fields>): ConfiguredSockets {
  const { encapsulation, metricsAddress, nodeLocalDNS, protectedPorts, protectedSockets } = configuration;
  const usual = protectedPorts.map(({ protocol, port }) => ({
    protocol,
    port,
    owner: (protocol === "TCP" ? USUAL_OWNERS[port] : undefined) ?? "protectedPorts",
  }));
  const own: ProtectedPort[] = [];
  if (metricsAddress !== undefined)
    own.push({ protocol: "TCP", port: metricsAddress.port, owner: "policyd's metrics" });
  const health = healthListen(configuration);
  if (health !== undefined) own.push({ protocol: "TCP", port: health.port, owner: "policyd's health" });
  if (encapsulation !== "never") own.push({ protocol: "UDP", port: TUNNEL.port, owner: "the tunnel between nodes" });
  const dns = nodeLocalDNS.flatMap((address) =>
    (["UDP", "TCP"] as const).map((protocol) => ({
      address,
      protocol,
      port: DNS_PORT,
      owner: "the node's DNS server",
    })),
  );
  return {
    ports: [...own, ...usual],
    sockets: [
      ...apiServerSocket(configuration.apiServer),
      ...dns,
      ...protectedSockets.map((socket) => ({ ...socket, owner: "protectedSockets" })),
    ],
  };
}

/** Returns the socket of an API server's URL; none for a name, which has to be resolved first. */
export function apiServerSocket(url: URL | undefined): readonly ProtectedSocket[] {
  const address = url === undefined ? undefined : tryParseAddress(hostOf(url));
  return url === undefined || address === undefined
    ? []
    : [{ address, protocol: "TCP", port: portOf(url), owner: API_SERVER }];
}

/** Returns the host of a URL, without the brackets of IPv6. */
export function hostOf({ hostname }: URL): string {
  return hostname.startsWith("[") ? hostname.slice(1, -1) : hostname;
}

/** Returns the port of a URL, which omits the scheme's default. */
export function portOf({ port, protocol }: URL): number {
  if (port !== "") return Number(port);
  return protocol === "https:" ? 443 : 80;
}

import { type Address, parseAddress } from "../../kernel/ip/address.ts";
import type { Configuration } from "./configuration.ts";

/** Default where policyd serves Services: cloud load balancers probe it (kube-proxy's healthzBindAddress). */
const OF_SERVICES = { address: parseAddress("0.0.0.0"), port: 10_256 };
/** Default where another program serves Services and occupies port 10256. */
const HEALTH_BESIDE_OTHERS = { address: parseAddress("127.0.0.1"), port: 9874 } as const;

/** Returns the address and port of the daemon's health server; undefined when it is off. */
export function healthListen({
  healthAddress,
  services,
}: Pick<Configuration, "healthAddress" | "services">):
  | { readonly address: Address; readonly port: number }
  | undefined {
  if (healthAddress === "none") return undefined;
  return healthAddress ?? (services ? OF_SERVICES : HEALTH_BESIDE_OTHERS);
}

/** Returns the daemon's own TCP ports that are reachable from outside the node, in ascending order. */
export function askedPorts(
  configuration: Pick<Configuration, "healthAddress" | "services" | "metricsAddress">,
): readonly number[] {
  const listens = [healthListen(configuration), configuration.metricsAddress];
  return [...new Set(listens.flatMap((listen) => listen?.port ?? []))].toSorted((a, b) => a - b);
}

import { formatAddress, tryParseAddress } from "../../kernel/ip/address.ts";
import { at, listAt } from "./raw.ts";

/** A port of a pod's node that leads to the pod. */
export interface HostPort {
  readonly protocol: string;
  readonly hostPort: number;
  readonly containerPort: number;
  /** The node's address that has the port; absent where all have it. */
  readonly hostIp?: string;
}

/**
 * The host ports of a Pod as it stands in its file, which the model leaves out: the daemon knows them by attachments. A pod of
 * the host's network has none, since its ports are the node's.
 */
export function hostPortsOf(pod: unknown): readonly HostPort[] {
  if (at(pod, "spec", "hostNetwork") === true) return [];
  return listAt(pod, "spec", "containers")
    .flatMap((container) => listAt(container, "ports"))
    .flatMap((port): readonly HostPort[] => {
      const [hostPort, containerPort] = [at(port, "hostPort"), at(port, "containerPort")];
      const protocol = at(port, "protocol") ?? "TCP";
      if (typeof hostPort !== "number" || hostPort < 1 || typeof containerPort !== "number") return [];
      if (typeof protocol !== "string") return [];
      const hostIp = hostIpOf(at(port, "hostIP"));
      return [{ protocol, hostPort, containerPort, ...(hostIp === undefined ? {} : { hostIp }) }];
    });
}

/** The address as people write it; undefined for all of the node's, and for any other text. */
function hostIpOf(text: unknown): string | undefined {
  const address = typeof text === "string" ? tryParseAddress(text) : undefined;
  return address === undefined || BigInt(address) === 0n ? undefined : formatAddress(address);
}

import { formatAddress, tryParseAddress } from "../../kernel/ip/address.ts";
import { at, listAt } from "./raw.ts";

const LONGEST_SHOWN = 80;

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
      // An empty text counts as absent, as for the API server.
      const protocol = at(port, "protocol") || "TCP";
      if (typeof hostPort !== "number" || hostPort < 1 || typeof containerPort !== "number") return [];
      if (typeof protocol !== "string") return [];
      const hostIp = hostIpOf(at(port, "hostIP"));
      return [{ protocol, hostPort, containerPort, ...(hostIp === undefined ? {} : { hostIp }) }];
    });
}

/** Why the API server would refuse host ports of a Pod, of which the daemon reads none. */
export function hostPortProblems(pod: unknown): readonly string[] {
  return ["initContainers", "containers"].flatMap((list) =>
    listAt(pod, "spec", list).flatMap((container, i) =>
      listAt(container, "ports").flatMap((port, j) => {
        const number = at(port, "hostPort") ?? 0;
        if (typeof number === "number" && Number.isInteger(number) && number >= 0 && number <= 65_535) return [];
        const shown = JSON.stringify(number).slice(0, LONGEST_SHOWN);
        return [`spec.${list}[${i}].ports[${j}].hostPort: ${shown}; expected an integer from 0 to 65535`];
      }),
    ),
  );
}

/** The address as people write it; undefined for all of the node's, and for any other text. */
function hostIpOf(text: unknown): string | undefined {
  const address = typeof text === "string" ? tryParseAddress(text) : undefined;
  return address === undefined || BigInt(address) === 0n ? undefined : formatAddress(address);
}

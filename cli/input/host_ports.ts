import { formatAddress, tryParseAddress } from "../../kernel/ip/address.ts";
import { at, listAt } from "./raw.ts";

const LONGEST_SHOWN = 80;

/** A port of a pod's node that leads to the pod. */
export interface HostPort {
  readonly protocol: string;
  readonly hostPort: number;
  readonly containerPort: number;
  /** The node's address with the port; absent where all its addresses have it. */
  readonly hostIp?: string;
}

/**
 * Returns the host ports of a Pod from its source. The model omits them, since the daemon learns them from
 * attachments. A pod in the host's network has none: its ports are the node's.
 */
export function hostPortsOf(pod: unknown): readonly HostPort[] {
  if (at(pod, "spec", "hostNetwork") === true) return [];
  return listAt(pod, "spec", "containers")
    .flatMap((container) => listAt(container, "ports"))
    .flatMap((port): readonly HostPort[] => {
      const [hostPort, containerPort] = [at(port, "hostPort"), at(port, "containerPort")];
      // The API server treats an empty text as absent.
      const protocol = at(port, "protocol") || "TCP";
      if (typeof hostPort !== "number" || hostPort < 1 || typeof containerPort !== "number") return [];
      if (typeof protocol !== "string") return [];
      const hostIp = hostIpOf(at(port, "hostIP"));
      return [{ protocol, hostPort, containerPort, ...(hostIp === undefined ? {} : { hostIp }) }];
    });
}

/** Returns why the API server would refuse a Pod's host ports, which the daemon does not read from Pods. */
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

/** Returns the address in canonical form; undefined for all of the node's addresses, and for any other text. */
function hostIpOf(text: unknown): string | undefined {
  const address = typeof text === "string" ? tryParseAddress(text) : undefined;
  return address === undefined || BigInt(address) === 0n ? undefined : formatAddress(address);
}

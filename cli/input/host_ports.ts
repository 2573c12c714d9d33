/** A port of a pod's node that leads to the pod. */
export interface HostPort {
  readonly protocol: string;
  readonly hostPort: number;
  readonly containerPort: number;
}

/**
 * The host ports of a Pod as it stands in its file, which the model leaves out: the daemon knows them by attachments. A pod of
 * the host's network has none, since its ports are the node's.
 */
export function hostPortsOf(pod: unknown): readonly HostPort[] {
  const spec = member(pod, "spec");
  if (member(spec, "hostNetwork") === true) return [];
  return listed(member(spec, "containers"))
    .flatMap((container) => listed(member(container, "ports")))
    .flatMap((port): readonly HostPort[] => {
      const [hostPort, containerPort] = [member(port, "hostPort"), member(port, "containerPort")];
      const protocol = member(port, "protocol") ?? "TCP";
      if (typeof hostPort !== "number" || hostPort < 1 || typeof containerPort !== "number") return [];
      return typeof protocol === "string" ? [{ protocol, hostPort, containerPort }] : [];
    });
}

function member(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return Object.getOwnPropertyDescriptor(value, key)?.value;
}

function listed(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

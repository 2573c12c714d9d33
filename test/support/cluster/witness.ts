import { type Family, familyOf, formatAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { ClusterPod } from "../../lab/cluster/cluster.ts";

/** The packets that a pod has received, counted by a table of the test's own in the pod's namespace. */
export interface Received {
  readonly allowed: number;
  readonly forbidden: number;
}

/** Makes a pod count the packets that it receives, by the sender's own address, before any other rule sees them. */
export function countAt(pod: ClusterPod, allowed: readonly ClusterPod[], forbidden: readonly ClusterPod[]): void {
  const set = (senders: readonly ClusterPod[], family: Family): string =>
    senders
      .flatMap(({ addresses }) => addresses.filter((one) => familyOf(one) === family).map(formatAddress))
      .join(", ");
  const rules = FAMILIES.flatMap((family) => {
    const source = family === 4 ? "ip saddr" : "ip6 saddr";
    return [
      `${source} { ${set(allowed, family)} } counter name allowed`,
      `${source} { ${set(forbidden, family)} } counter name forbidden`,
    ];
  });
  const text = `table inet witness {
  counter allowed {}
  counter forbidden {}
  chain input {
    type filter hook prerouting priority -500
    ${rules.join("\n    ")}
  }
}
`;
  pod.pod.exec("nft", ["-f", "-"], text);
}

/** Returns the values of the counters of {@link countAt}. */
export function receivedBy({ pod }: ClusterPod): Received {
  const count = (name: string): number => {
    const text = pod.exec("nft", ["list", "counter", "inet", "witness", name]);
    return Number(/packets (\d+)/.exec(text)?.[1] ?? Number.NaN);
  };
  return { allowed: count("allowed"), forbidden: count("forbidden") };
}

/** Resets the counters of {@link countAt}. */
export function startAnew({ pod }: ClusterPod): void {
  pod.exec("nft", ["reset", "counters", "table", "inet", "witness"]);
}

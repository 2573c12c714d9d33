import type { LabNamespace } from "../../../lab/namespace.ts";

const COUNTING = `table inet arrivals {
  chain arrivals {
    type filter hook prerouting priority -400; policy accept;
    tcp flags & (syn | ack) == syn counter
    meta l4proto { udp, sctp } counter
  }
}`;

/**
 * Makes the namespace of an endpoint count the packets that arrive: first packets of TCP connections, packets of UDP
 * and SCTP.
 */
export function countArrivals(namespace: LabNamespace): void {
  namespace.exec("nft", ["-f", "-"], COUNTING);
}

/** Returns the number of packets so far. */
export function arrivals(namespace: LabNamespace): number {
  const text = namespace.exec("nft", ["list", "table", "inet", "arrivals"]);
  return [...text.matchAll(/counter packets (\d+)/g)].reduce((sum, [, packets]) => sum + Number(packets), 0);
}

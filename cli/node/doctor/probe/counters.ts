/** The meaning of a counter of lost packets, and the way out. */
interface Counter {
  readonly meaning: string;
  readonly way: string;
}

const NO_ROUTE: Counter = {
  meaning: "packets without a route",
  way: "ip route show table all, and the same with ip -6; the check pod-networks",
};
const TOO_BIG: Counter = { meaning: "packets larger than the MTU", way: "ip link, and the check mtu" };
const MARTIAN: Counter = {
  meaning: "packets with an address that is invalid here",
  way: "ip route get ADDRESS from POD iif BRIDGE; the checks forwarding and pod-networks",
};

/** The counters of packets that the kernel loses outside of all rules, by their names in /proc/net (SNMP, RFC 4293). */
export const COUNTERS: ReadonlyMap<string, Counter> = new Map([
  [
    "TcpExt IPReversePathFilter",
    {
      meaning: "packets that came in by another link than the one back (rp_filter)",
      way: "sysctl -w net.ipv4.conf.all.rp_filter=2, and in /etc/sysctl.d",
    },
  ],
  ["IpExt InNoRoutes", NO_ROUTE],
  ["Ip OutNoRoutes", NO_ROUTE],
  ["Ip6InNoRoutes", NO_ROUTE],
  ["Ip6OutNoRoutes", NO_ROUTE],
  ["Ip FragFails", TOO_BIG],
  ["Ip6FragFails", TOO_BIG],
  ["Ip6InTooBigErrors", TOO_BIG],
  ["Ip InAddrErrors", MARTIAN],
  ["Ip6InAddrErrors", MARTIAN],
]);

/** Returns the numbers of {@link COUNTERS} in the texts of /proc/net/snmp, netstat and snmp6. */
export function readCounters(texts: readonly string[]): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const text of texts) {
    const lines = text.split("\n").map((line) => line.split(/\s+/));
    for (const [i, [head = "", ...fields]] of lines.entries()) {
      const next = lines[i + 1];
      const prefix = head.slice(0, -1);
      if (head.endsWith(":") && next?.[0] === head && !/^\d/.test(fields[0] ?? "")) {
        for (const [at, field] of fields.entries()) found.set(`${prefix} ${field}`, Number(next[at + 1]));
      } else if (!head.endsWith(":") && head !== "") {
        found.set(head, Number(fields[0]));
      }
    }
  }
  return new Map([...COUNTERS.keys()].map((name) => [name, found.get(name) ?? 0]));
}

/** Returns whether packets were too big: the sender learns the MTU of the path, so that a second one may arrive. */
export function isTooBig(counted: readonly string[]): boolean {
  return counted.some((name) => COUNTERS.get(name) === TOO_BIG);
}

/** Returns the names of the counters that have risen. */
export function risen(before: ReadonlyMap<string, number>, after: ReadonlyMap<string, number>): readonly string[] {
  return [...after].flatMap(([name, value]) => (value > (before.get(name) ?? 0) ? [name] : []));
}

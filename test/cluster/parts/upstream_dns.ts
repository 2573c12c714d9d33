import { INTERNET_ADDRESSES, withoutLength } from "../settings.ts";

/** The names of PTR records for the Internet's addresses. */
const REVERSE = [
  "8.8.8.8.in-addr.arpa",
  "8.8.8.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.8.4.0.6.8.4.1.0.0.2.ip6.arpa",
] as const;

/**
 * Returns the Corefile of the name server in the nodes' resolv.conf, which stands for the Internet. It has the names
 * that upstream's tests use, and answers all others with NXDOMAIN, since a query without an answer would wait for its
 * timeout. Those tests also connect to google.com by TCP on port 80, so it listens there, too.
 *
 * @param addresses of the machine
 */
export function upstreamDnsConfiguration(addresses: readonly string[], ports: readonly number[] = [53, 80]): string {
  return ports
    .flatMap((port) => [
      server(REVERSE, port, addresses, [record("PTR", "dns.google.")]),
      server(["google.com"], port, addresses, [
        record("A", withoutLength(INTERNET_ADDRESSES[4])),
        record("AAAA", withoutLength(INTERNET_ADDRESSES[6])),
      ]),
      server(["."], port, addresses, ["  template ANY ANY {\n    rcode NXDOMAIN\n  }\n"]),
    ])
    .join("");
}

function record(type: "A" | "AAAA" | "PTR", data: string): string {
  return `  template IN ${type} {\n    answer "{{ .Name }} 30 IN ${type} ${data}"\n  }\n`;
}

function server(
  names: readonly string[],
  port: number,
  addresses: readonly string[],
  plugins: readonly string[],
): string {
  const zones = names.map((name) => `${name}:${port}`).join(" ");
  return `${zones} {\n  bind ${addresses.join(" ")}\n${plugins.join("")}}\n`;
}

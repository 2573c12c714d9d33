import { INTERNET_ADDRESSES, withoutLength } from "../settings.ts";

/** The names of PTR records for the Internet's addresses. */
const REVERSE = [
  "8.8.8.8.in-addr.arpa",
  "8.8.8.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.8.4.0.6.8.4.1.0.0.2.ip6.arpa",
] as const;

/**
 * Returns the Corefile of the name server that the nodes' resolv.conf names. It stands for the Internet: it knows the names that
 * upstream's tests ask for, and says of all others that they do not exist, as a query without an answer would take until its
 * timeout. Those tests also connect to google.com by TCP on port 80, where it listens, too.
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

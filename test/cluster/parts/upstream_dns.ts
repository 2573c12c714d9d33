/** The two addresses whose name upstream's tests ask for, 8.8.8.8 and 2001:4860:4860::8888, as names of PTR records. */
const KNOWN = [
  "8.8.8.8.in-addr.arpa",
  "8.8.8.8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.8.4.0.6.8.4.1.0.0.2.ip6.arpa",
] as const;

/**
 * Returns the Corefile of the name server that the nodes' resolv.conf names. It stands for the Internet's: it knows the name that
 * upstream's tests ask for, and says of all others that they do not exist. A query without an answer would take until its timeout.
 */
export function upstreamDnsConfiguration(addresses: readonly string[], port = 53): string {
  const bind = `  bind ${addresses.join(" ")}`;
  return `${KNOWN.map((name) => `${name}:${port}`).join(" ")} {
${bind}
  template IN PTR {
    answer "{{ .Name }} 30 IN PTR dns.google."
  }
}
.:${port} {
${bind}
  template ANY ANY {
    rcode NXDOMAIN
  }
}
`;
}

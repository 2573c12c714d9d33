/** A port by its number. */
export interface NumberedPort {
  readonly protocol: "TCP" | "UDP" | "SCTP";
  readonly port: number;
}

/** A port that somebody asks about: by its number, by the name that the destination gives it, or ICMP, which has none. */
export type AskedPort = NumberedPort | { readonly protocol: "ICMP" } | { readonly name: string };

/** Of Services as of containers: small letters, figures and hyphens, among them a letter. */
const PORT_NAME = /^(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** A port as `80`, `80/TCP` or `53/udp`, of TCP where no protocol is named; undefined for any other text. */
export function numberedPort(text: string): NumberedPort | undefined {
  const [, number = "", , name = "TCP"] = /^(\d{1,5})(\/(\w+))?$/.exec(text) ?? [];
  const protocol = (["TCP", "UDP", "SCTP"] as const).find((one) => one === name.toUpperCase());
  const port = Number(number);
  return protocol === undefined || port < 1 || port > 65_535 ? undefined : { protocol, port };
}

/** As {@link numberedPort}, also `icmp` and the name of a port. */
export function askedPort(text: string): AskedPort | undefined {
  if (text.toLowerCase() === "icmp") return { protocol: "ICMP" };
  return PORT_NAME.test(text) ? { name: text } : numberedPort(text);
}

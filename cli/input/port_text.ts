import type { Protocol } from "../../objects/model.ts";
import { PROTOCOLS } from "../../objects/protocol.ts";

/** A port by its number. */
export interface NumberedPort {
  readonly protocol: Protocol;
  readonly port: number;
}

/** A port in a question: by its number, by its name at the destination, or ICMP, which has none. */
export type AskedPort = NumberedPort | { readonly protocol: "ICMP" } | { readonly name: string };

/** Port names of Services and containers: lower-case letters, digits and hyphens, at least one letter. */
export const PORT_NAME = /^(?=.*[a-z])[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/;

/** Reads a port such as `80`, `80/TCP` or `53/udp`; TCP is the default. @returns undefined for any other text */
export function numberedPort(text: string): NumberedPort | undefined {
  const [, number = "", , name = "TCP"] = /^(\d{1,5})(\/(\w+))?$/.exec(text) ?? [];
  const protocol = PROTOCOLS.find((one) => one === name.toUpperCase());
  const port = Number(number);
  return protocol === undefined || port < 1 || port > 65_535 ? undefined : { protocol, port };
}

/** Reads a port as {@link numberedPort} does, or `icmp`, or the name of a port. */
export function askedPort(text: string): AskedPort | undefined {
  if (text.toLowerCase() === "icmp") return { protocol: "ICMP" };
  return PORT_NAME.test(text) ? { name: text } : numberedPort(text);
}

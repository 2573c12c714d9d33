import { tryParseAddress } from "../../kernel/ip/address.ts";
import { PROTOCOLS } from "../../objects/protocol.ts";
import type { Protocol } from "../../objects/model.ts";
import { type EndName, parseEndName } from "../cluster/end_name.ts";

/** The destination of a packet. */
export interface PacketTarget {
  readonly end: Extract<EndName, { readonly type: "address" | "service" }>;
  /** A Service's port may be given by its name. */
  readonly port: number | string;
  /** Undefined for a port given by its name, which implies the protocol. */
  readonly protocol: Protocol | undefined;
}

/** The forms {@link parseTarget} takes. */
export const TARGET_FORMS = "IP:PORT/PROTOCOL, [IPv6]:PORT/PROTOCOL or service/NS/NAME:PORT";

/** Reads a target; TCP without a protocol. @returns undefined for a text that is not one of {@link TARGET_FORMS} */
export function parseTarget(text: string, namespace?: string): PacketTarget | undefined {
  const [, host = "", port = "", protocolName] =
    /^(\[[^\]]+\]|[^:[\]]+):([a-z0-9-]{1,15})(?:\/(\w+))?$/.exec(text) ?? [];
  const end = parseHost(host, namespace);
  const protocol = PROTOCOLS.find((one) => one === (protocolName ?? "TCP").toUpperCase());
  if (end === undefined || protocol === undefined) return undefined;
  const number = /^\d{1,5}$/.test(port) ? Number(port) : undefined;
  if (number !== undefined) return number >= 1 && number <= 65_535 ? { end, port: number, protocol } : undefined;
  const isNamed = end.type === "service" && protocolName === undefined && /[a-z]/.test(port);
  return isNamed ? { end, port, protocol: undefined } : undefined;
}

function parseHost(text: string, namespace: string | undefined): PacketTarget["end"] | undefined {
  const address = text.startsWith("[") ? tryParseAddress(text.slice(1, -1)) : undefined;
  const end = text.startsWith("[") ? address && ({ type: "address", address } as const) : parseEndName(text, namespace);
  return end?.type === "address" || end?.type === "service" ? end : undefined;
}

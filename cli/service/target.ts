import { tryParseAddress } from "../../kernel/ip/address.ts";
import type { Protocol } from "../../objects/model.ts";
import { type EndName, parseEndName } from "../cluster/end_name.ts";
import { numberedPort, PORT_NAME } from "../input/port_text.ts";

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
  const [, host = "", port = ""] = /^(\[[^\]]+\]|[^:[\]]+):(.+)$/.exec(text) ?? [];
  const end = parseHost(host, namespace);
  if (end === undefined) return undefined;
  const numbered = numberedPort(port);
  if (numbered !== undefined) return { end, ...numbered };
  return end.type === "service" && PORT_NAME.test(port) ? { end, port, protocol: undefined } : undefined;
}

function parseHost(text: string, namespace: string | undefined): PacketTarget["end"] | undefined {
  const address = text.startsWith("[") ? tryParseAddress(text.slice(1, -1)) : undefined;
  const end = text.startsWith("[") ? address && ({ type: "address", address } as const) : parseEndName(text, namespace);
  return end?.type === "address" || end?.type === "service" ? end : undefined;
}

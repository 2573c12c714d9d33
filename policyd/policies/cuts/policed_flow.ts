import { protocolOf } from "../../../objects/protocol.ts";
import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import type { PolicedFlow } from "../compile/profile_verdict.ts";

/**
 * Returns a connection as the rules saw its first packet: from its source before masquerading, to the destination that
 * destination NAT chose, from which its answers come.
 */
export function policedFlow({ original, reply }: Pick<ConntrackEntry, "original" | "reply">): PolicedFlow {
  return {
    source: original.source,
    destination: reply.source,
    protocol: protocolOf(original.protocol),
    port: reply.sourcePort ?? 0,
  };
}

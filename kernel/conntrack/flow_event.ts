import type { Address } from "../ip/address.ts";
import { malformed } from "../netlink/attribute_decoder.ts";
import { MessageFlag, type ReceivedMessage } from "../netlink/message.ts";
import { entryLayout } from "./entry.ts";
import { attributesOf, find, peekId, peekTuples } from "./flow_tuples.ts";
import { ConntrackMessage } from "./request.ts";
import { tupleTable } from "./tuple.ts";

/** The beginning or the end of a connection. */
export interface FlowEvent {
  readonly kind: "begun" | "ended";
  /** The kernel's ID of the connection, the same in all messages about it. */
  readonly id: number;
  /** The IANA protocol number. */
  readonly protocol: number;
  /** The client's address. */
  readonly source: Address;
  /** The address that answers: for a connection to a Service, the endpoint. */
  readonly server: Address;
  /** The server's port; 0 where the protocol has none. */
  readonly port: number;
  /** The bytes of both directions; 0 unless net.netfilter.nf_conntrack_acct was on when the connection began. */
  readonly bytes: number;
}

const REPLY = entryLayout.attributes.reply[0];
const COUNTERS = [entryLayout.attributes.originalCounters[0], entryLayout.attributes.replyCounters[0]];
const PROTOCOL = tupleTable.protocol[0];
const PROTOCOL_NUMBER = 1;
const COUNTER_BYTES = 2;

/**
 * Reads a message of the groups of new and ended connections.
 *
 * It reads only the fields of {@link FlowEvent}, in a quarter of the time that `parseEntry` takes, because a busy node
 * has thousands of connections a second.
 *
 * @returns undefined for any other message, such as an update
 * @throws DrawbridgeError ERR_NETLINK_MALFORMED for one without addresses or protocol
 */
export function parseFlowEvent({ type, flags, body }: ReceivedMessage): FlowEvent | undefined {
  const isEnd = type === ConntrackMessage.DELETE;
  if (!isEnd && (type !== ConntrackMessage.NEW || (flags & MessageFlag.CREATE) === 0)) return undefined;
  return readFlow(body, isEnd ? "ended" : "begun");
}

/** Reads an entry of a list of the table, like {@link parseFlowEvent}, as a connection that has begun. */
export function parseListedFlow({ body }: ReceivedMessage): FlowEvent {
  return readFlow(body, "begun");
}

function readFlow(body: Uint8Array, kind: FlowEvent["kind"]): FlowEvent {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const message = attributesOf(body);
  const tuples = peekTuples(body);
  const protocol = find(view, find(view, find(view, message, REPLY), PROTOCOL), PROTOCOL_NUMBER);
  if (tuples === undefined || protocol === undefined || protocol.end === protocol.start) {
    throw malformed("a connection without addresses or protocol");
  }
  const { original, reply } = tuples;
  let bytes = 0;
  for (const counters of COUNTERS) {
    const span = find(view, find(view, message, counters), COUNTER_BYTES);
    if (span !== undefined && span.end - span.start === 8) bytes += Number(view.getBigUint64(span.start));
  }
  return {
    kind,
    // A signed number, because the runtime stores it without a box.
    id: peekId(body) | 0,
    protocol: view.getUint8(protocol.start),
    source: original.source,
    server: reply.source,
    port: reply.sourcePort ?? 0,
    bytes,
  };
}

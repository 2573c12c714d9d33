import type { TraceEvent } from "../../../../kernel/nftables/decode/trace.ts";
import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";
import type { ProbeFlow } from "./flow.ts";
import { type Passage, passageOf } from "./trace_table.ts";

/** One try of a flow. */
export interface Attempt {
  readonly sourcePort: number;
  /** Whether an answer came, or our socket has received it. */
  readonly isAnswered: boolean;
  readonly events: readonly TraceEvent[];
  /** The names of the kernel's counters of lost packets that have risen meanwhile. */
  readonly counted: readonly string[];
}

/** Where a packet was lost, and which of the flow's packets that was. */
export type Loss = { readonly packet: Packet } & (
  | { readonly kind: "dropped"; readonly by: TraceEvent; readonly hook: string | undefined }
  | {
      readonly kind: "vanished";
      /** The last known place; undefined where the trace shows nothing of the packet. */
      readonly last: Passage | undefined;
      /** The index of the link by which it left. */
      readonly output: number | undefined;
      readonly counted: readonly string[];
    }
);

type Packet = "first" | "answer" | "tunnel";

/** The outcome of a probe. */
export interface Probed {
  readonly lost: readonly { readonly flow: ProbeFlow; readonly loss: Loss }[];
  /** Why the probe pods could not be attached. */
  readonly failure: string | undefined;
}

/**
 * Returns where the packet of a flow was lost, by the kernel's trace; undefined where it has arrived. A rule that rejects
 * answers as a closed port does, so its drop counts also where there was an answer.
 */
export function lossOf(flow: ProbeFlow, { sourcePort, isAnswered, events, counted }: Attempt): Loss | undefined {
  const last: { -readonly [P in Packet]?: Sight } = {};
  for (const { event, packet } of ownEvents(flow, sourcePort, events)) {
    const passage = passageOf(event);
    if (event.isDrop && (packet === "first" || !isAnswered))
      return { kind: "dropped", by: event, packet, hook: last[packet]?.passage.hook };
    if (passage !== undefined) last[packet] = { passage, output: event.output ?? last[packet]?.output };
  }
  if (isAnswered) return undefined;
  const packet = last.answer === undefined ? "first" : "answer";
  const { passage, output } = last[packet] ?? { passage: undefined, output: undefined };
  if (packet === "first" && hasArrived(flow, passage)) return undefined;
  return { kind: "vanished", packet, last: passage, output, counted };
}

/** The last known place of one packet. */
interface Sight {
  readonly passage: Passage;
  readonly output: number | undefined;
}

/** Yields the events of a flow's packets: the number of a packet counts for events without headers. */
function* ownEvents(
  { isTunnelled }: ProbeFlow,
  sourcePort: number,
  events: readonly TraceEvent[],
): Generator<{ readonly event: TraceEvent; readonly packet: Packet }> {
  const packets = new Map<number, Packet>();
  for (const event of events) {
    const packet = packetOf(event, sourcePort) ?? packets.get(event.id);
    if (packet === undefined || (packet === "tunnel" && !isTunnelled)) continue;
    packets.set(event.id, packet);
    yield { event, packet };
  }
}

function hasArrived({ arrives }: ProbeFlow, passage: Passage | undefined): boolean {
  if (passage === undefined || passage.before !== undefined) return false;
  if (arrives === "at a socket") return passage.hook === "input" && passage.family === "inet";
  return arrives === "at a link" && passage.hook === "postrouting";
}

/** Returns which packet begins with these headers; undefined for an event without, or after a new source port. */
function packetOf({ header }: TraceEvent, port: number): Packet | undefined {
  if (header === undefined) return undefined;
  if (header.sourcePort === port) return "first";
  if (header.destinationPort === port) return "answer";
  return header.protocol === "udp" && header.destinationPort === TUNNEL.port ? "tunnel" : undefined;
}

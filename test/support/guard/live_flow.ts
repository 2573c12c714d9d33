import { Errno } from "../../../kernel/syscall/errno.ts";
import { familyOf } from "../../../kernel/ip/address.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import type { Poller } from "../../lab/probe/poller.ts";
import { ProbeSocket, SocketType } from "../../lab/probe/socket.ts";

const MESSAGE_SIZE = 16;
const REPEAT_MILLISECONDS = 250;

/** A client that sends the next message when the previous one has come back, over one socket for its whole life. */
export interface LiveFlow {
  readonly name: string;
  /** The number of messages that have come back. */
  readonly exchanges: number;
  /** The reason why no more messages will come back; empty while the flow goes on. */
  readonly failure: string;
  /** Sends the outstanding datagram again when its answer is long overdue; TCP retransmits by itself. */
  tick(now: number): void;
}

/** Starts a flow to a responder, which the poller continues. */
export function startFlow(poller: Poller, protocol: "tcp" | "udp", from: LabNamespace, to: Endpoint): LiveFlow {
  const isTcp = protocol === "tcp";
  const type = isTcp ? SocketType.STREAM : SocketType.DATAGRAM;
  const socket = ProbeSocket.open(from, familyOf(to.address), type);
  const state = { exchanges: 0, failure: "", pending: 0, sentAt: 0 };
  const send = (): void => {
    state.sentAt = performance.now();
    state.pending = MESSAGE_SIZE;
    const message = new Uint8Array(MESSAGE_SIZE);
    new DataView(message.buffer).setUint32(0, state.exchanges);
    socket.send(message);
  };
  const isAnswer = (data: Uint8Array): boolean => isTcp || new DataView(data.buffer).getUint32(0) === state.exchanges;
  const watcher = {
    onReadable: () => {
      for (const next of socket.drain()) {
        if (next.kind !== "data") {
          state.failure = next.kind === "refused" ? `errno ${next.errno}` : "closed by the other side";
          return poller.drop(socket);
        }
        if (isAnswer(next.data)) state.pending -= next.data.length;
      }
      if (state.pending > 0) return;
      state.exchanges++;
      send();
    },
  };
  const onWritable = (): void => {
    poller.watch(socket, watcher);
    send();
  };
  poller.watch(socket, { ...watcher, onWritable });
  const result = socket.connect(to);
  if (result < 0 && result !== -Errno.EINPROGRESS) state.failure = `errno ${-result}`;
  return {
    name: `${protocol} IPv${familyOf(to.address)}`,
    get exchanges() {
      return state.exchanges;
    },
    get failure() {
      return state.failure;
    },
    tick: (now) => {
      if (!isTcp && state.sentAt > 0 && now - state.sentAt > REPEAT_MILLISECONDS) send();
    },
  };
}

/**
 * Continues flows until each has made this number of further exchanges.
 *
 * @returns the names of those that have not within some seconds, with the reason
 */
export async function exchangeMore(
  poller: Poller,
  flows: readonly LiveFlow[],
  count: number,
): Promise<readonly string[]> {
  const goals = new Map(flows.map((flow) => [flow, flow.exchanges + count]));
  const lacking = (): readonly LiveFlow[] => flows.filter((flow) => flow.exchanges < (goals.get(flow) ?? 0));
  const end = performance.now() + 10_000;
  await poller.runUntil(() => {
    const now = performance.now();
    for (const flow of flows) flow.tick(now);
    return now > end || lacking().length === 0;
  });
  return lacking().map(({ name, failure, exchanges }) => `${name}: ${exchanges} exchanges ${failure}`);
}

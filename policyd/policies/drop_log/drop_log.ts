import type { KernelNotifications } from "../../../kernel/notifications/notifications.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import type { ReceivedMessage } from "../../../kernel/netlink/message.ts";
import { attempt } from "../../../kernel/error.ts";
import { parseLoggedPacket } from "../../../kernel/packets/logged_packet.ts";
import type { Cancel, Clock } from "../../lib/clock.ts";
import { ControlLoop } from "../../lib/control_loop.ts";
import { FairQueue } from "../../lib/fair_queue.ts";
import { RenewedSubscription } from "../../lib/renewed_subscription.ts";
import type { Logger } from "../../log/logger.ts";
import type { PolicyOptions } from "../../../objects/semantics/policies/objects.ts";
import type { ChangedVerdicts, PolicyFollower } from "../live/policy_follower.ts";
import type { ClusterView } from "./cluster_view.ts";
import { dropFields, reasonIn } from "./policy_drop_line.ts";
import { type LoggedFlow, loggedFlow } from "./logged_flow.ts";
import { EXPLAINED, FlowLimiter } from "./flow_limiter.ts";

export interface DropLogParts {
  /** The nflog group of the rules' log statements. */
  readonly group: number;
  readonly view: ClusterView;
  readonly options: PolicyOptions;
  readonly logger: Logger;
  readonly clock: Clock;
  /** Called for each packet, with the reason if it has a line. It must only record. */
  readonly observer?: { denied(flow: LoggedFlow, reason: string | undefined): void } | undefined;
}

/** Logged packets by outcome: `explained` packets have a line. */
export type DropLogCounts = Readonly<Record<"explained" | "repeated" | "too many" | "not ours", number>> & {
  /** How often the kernel had no room for further packets. */
  readonly overruns: number;
};

/** Room for IPv6, some extension headers and ports. The rules may copy less. */
const COPY_BYTES = 256;
/** Packets wait in the kernel for others, so that a flood wakes the daemon only a few times a second. */
const QUEUE_THRESHOLD = 32;
const QUEUE_MILLISECONDS = 200;
/** Packets that are not read in time may be lost; the rules count them all the same. */
const RECEIVE_BUFFER_BYTES = 256 * 1024;
/** How often, at most, the number of packets without a line is logged. */
const OMITTED_MILLISECONDS = 10_000;

const MESSAGES = {
  drop: "policy dropped a packet",
  "would drop": "policy in shadow would drop a packet",
} as const;

/**
 * Logs the packets that policies have dropped, or in shadow would drop: which pod, which peer, and why. Flows wait for
 * their lines, since one takes longer the more policies there are: each is written in its own turn, as time permits.
 */
export class DropLog implements PolicyFollower {
  readonly #parts: DropLogParts;
  readonly #subscription: RenewedSubscription;
  readonly #pace = new FlowLimiter();
  readonly #counts = { explained: 0, repeated: 0, "too many": 0, "not ours": 0, overruns: 0 };
  /** By the namespace of the sender: one that is denied in a loop takes no line from other tenants. */
  readonly #waiting = new FairQueue<LoggedFlow>(EXPLAINED.burst);
  readonly #lines: ControlLoop;
  #omittedLine: Cancel | undefined;

  constructor(parts: DropLogParts) {
    const { group, logger, clock } = parts;
    this.#parts = parts;
    const pause = (): number => this.#pace.wait(clock.now());
    this.#lines = new ControlLoop({ clock, pass: () => this.#writeLine(), pause });
    this.#subscription = new RenewedSubscription({
      clock,
      source: {
        kind: "nflog",
        group,
        copyBytes: COPY_BYTES,
        queueThreshold: QUEUE_THRESHOLD,
        queueMilliseconds: QUEUE_MILLISECONDS,
        receiveBufferBytes: RECEIVE_BUFFER_BYTES,
      },
      listener: { onMessages: (messages) => this.#take(messages), onOverrun: () => void this.#counts.overruns++ },
      // Another program may have the group. Denied packets are dropped and counted all the same.
      onRefused: (error) =>
        logger.warn("the kernel sends no packets to the drop log; the subscription is retried", { group, error }),
      onOpen: (wasRefused) => {
        if (wasRefused) logger.info("the kernel sends packets to the drop log now", { group });
      },
    });
  }

  /** Settles when packets arrive from now on, or the kernel has refused: then the subscription is retried. */
  async start(events: KernelNotifications): Promise<void> {
    await this.#subscription.start(events);
  }

  stop(): void {
    void this.#lines.stop();
    this.#subscription.stop();
    this.#omittedLine?.();
  }

  problems(): readonly string[] {
    const { refusal } = this.#subscription;
    return refusal === undefined ? [] : [`drop log: group ${this.#parts.group} is not read: ${refusal}`];
  }

  verdictsChanged({ addresses }: ChangedVerdicts): void {
    this.#pace.forget((address) => addresses === "all" || addresses.has(address));
  }

  counts(): DropLogCounts {
    return this.#counts;
  }

  #take(messages: readonly ReceivedMessage[]): void {
    for (const message of messages) {
      const flow = flowOf(message);
      if (flow === undefined) this.#counts["not ours"]++;
      else this.#queue(flow);
    }
  }

  #queue(flow: LoggedFlow): void {
    const { clock } = this.#parts;
    if (!this.#pace.take(flowKey(flow), [flow.source, flow.destination], clock.now())) {
      this.#counts.repeated++;
      this.#parts.observer?.denied(flow, undefined);
      return;
    }
    const beyond = this.#waiting.add(this.#senderOf(flow), flow);
    if (beyond !== undefined) {
      this.#pace.dismiss(flowKey(beyond));
      this.#counts["too many"]++;
      this.#parts.observer?.denied(beyond, undefined);
      this.#reportOmitted();
    }
    this.#lines.enqueue();
  }

  /** The namespace of the pod that sent a flow's packet; empty for nodes and senders outside the cluster. */
  #senderOf({ source }: LoggedFlow): string {
    const holder = this.#parts.view.holderOf(source);
    return holder?.type === "pod" ? holder.pod.namespace : "";
  }

  #writeLine(): number | undefined {
    const flow = this.#waiting.take();
    if (flow !== undefined) this.#tell(flow);
    return this.#waiting.size > 0 ? this.#pace.wait(this.#parts.clock.now()) : undefined;
  }

  #tell(flow: LoggedFlow): void {
    const { view, options, logger, clock, observer } = this.#parts;
    const began = clock.now();
    const fields = dropFields(view, flow, options);
    logger.warn(MESSAGES[flow.origin.outcome], fields, this.#senderOf(flow));
    observer?.denied(flow, reasonIn(fields));
    this.#counts.explained++;
    this.#pace.explained(began, clock.now());
  }

  #reportOmitted(): void {
    const { logger, clock } = this.#parts;
    if (this.#lines.isStopped || this.#omittedLine !== undefined) return;
    const before = this.#counts["too many"] - 1;
    this.#omittedLine = clock.after(OMITTED_MILLISECONDS, () => {
      this.#omittedLine = undefined;
      logger.warn("logged packets have no line: too many", { packets: this.#counts["too many"] - before });
    });
  }
}

/** Returns undefined also for a message that cannot be read, as if it had been lost. */
function flowOf(message: ReceivedMessage): LoggedFlow | undefined {
  const packet = attempt(
    () => parseLoggedPacket(message),
    () => undefined,
  );
  return packet && loggedFlow(packet);
}

/** Omits the source port: it does not matter to policies, and each attempt has a new one. */
function flowKey({ origin, source, destination, protocol, traffic }: LoggedFlow): string {
  const ends = `${formatAddress(source)} ${formatAddress(destination)}`;
  return `${origin.direction} ${origin.outcome} ${ends} ${protocol} ${traffic.port ?? ""}`;
}

import { TRANSPORT_OF, PROTOCOLS } from "../../objects/protocol.ts";
import type { ConntrackFilter } from "../../kernel/conntrack/filter.ts";
import { ConntrackStatus } from "../../kernel/conntrack/entry.ts";
import type { FlowTuples } from "../../kernel/conntrack/flow_tuples.ts";
import type { Machine } from "../machine.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, familyOf } from "../../kernel/ip/address.ts";
import type { IpProtocol } from "../../kernel/ip/protocol.ts";
import type { Cancel } from "../lib/clock.ts";
import type { Protocol } from "../../objects/model.ts";
import type { Flows } from "../../kernel/conntrack/flow_deletion.ts";
import type { ProtectedPort, ProtectedSocket } from "../../objects/socket_refusal.ts";

/** Protected sockets that flows are checked against. */
export interface JudgedSockets {
  readonly sockets: readonly ProtectedSocket[];
  readonly ports: readonly ProtectedPort[];
  /** The addresses at which ports are protected. */
  readonly nodeAddresses: ReadonlySet<Address>;
}

export interface TranslatedFlowsParts extends Pick<Machine, "clock" | "logger"> {
  readonly flows: Flows;
}

/** Matches flows with a translated destination. */
const TRANSLATED = { value: ConntrackStatus.DESTINATION_NAT, mask: ConntrackStatus.DESTINATION_NAT } as const;
const RETRY = 5000;
/** Milliseconds between two walks through the conntrack table. */
const LEAST = 2000;

/**
 * Forgets flows to protected sockets that were translated elsewhere, before the socket was protected or by a daemon
 * that did not know it. Their conntrack entries would send all further packets there, for the tunnel until the node
 * restarts.
 */
export class TranslatedFlows {
  readonly #parts: TranslatedFlowsParts;
  #retry: Cancel | undefined;
  #last = Number.NEGATIVE_INFINITY;
  #isStopped = false;

  constructor(parts: TranslatedFlowsParts) {
    this.#parts = parts;
  }

  /**
   * Forgets these flows, once no rule creates new ones: immediately, or a little later if the last walk was just now. A
   * refusal by the kernel is logged and retried.
   */
  async forget(judged: () => JudgedSockets): Promise<void> {
    this.#retry?.();
    const { flows, logger, clock } = this.#parts;
    const wait = this.#last + LEAST - clock.now();
    if (wait > 0) {
      this.#retry = clock.after(wait, () => void this.forget(judged));
      return;
    }
    this.#last = clock.now();
    try {
      const { sockets, ports, nodeAddresses } = judged();
      const own = ports.length === 0 ? [] : [...flows.nodeAddresses()];
      const all = { sockets, ports, nodeAddresses: new Set([...nodeAddresses, ...own]) };
      let deleted = 0;
      for (const protocol of PROTOCOLS) {
        const one = ofProtocol(all, protocol);
        const asked = questionsFor(one, TRANSPORT_OF[protocol]);
        if (asked.length > 0) deleted += await flows.delete(asked, (flow) => isTranslated(flow, one));
      }
      if (deleted > 0)
        logger.warn("connections to sockets that nodes depend on led elsewhere and are forgotten", { deleted });
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      logger.error("connections to sockets that nodes depend on are not forgotten; it is tried again", {
        error: error.message,
      });
      if (!this.#isStopped) this.#retry = clock.after(RETRY, () => void this.forget(judged));
    }
  }

  stop(): void {
    this.#isStopped = true;
    this.#retry?.();
  }
}

/** Returns whether a flow, of the protocol of these sockets, was sent to one of them and goes elsewhere. */
export function isTranslated(
  { original, reply }: FlowTuples,
  { sockets, ports, nodeAddresses }: JudgedSockets,
): boolean {
  const { destination: address, destinationPort: port } = original;
  if (port === undefined || (reply.source === address && reply.sourcePort === port)) return false;
  if (sockets.some((socket) => socket.address === address && socket.port === port)) return true;
  return nodeAddresses.has(address) && ports.some((one) => one.port === port);
}

/** Returns the sockets and ports of one protocol. */
function ofProtocol({ sockets, ports, nodeAddresses }: JudgedSockets, protocol: Protocol): JudgedSockets {
  const isOne = (one: ProtectedPort): boolean => one.protocol === protocol;
  return { sockets: sockets.filter(isOne), ports: ports.filter(isOne), nodeAddresses };
}

/** Returns one filter for each family, since the kernel walks its table for each. */
function questionsFor(
  { sockets, ports, nodeAddresses }: JudgedSockets,
  protocol: IpProtocol,
): readonly ConntrackFilter[] {
  const addresses = [...sockets.map(({ address }) => address), ...(ports.length === 0 ? [] : nodeAddresses)];
  const families = new Set(addresses.map(familyOf));
  return [...families].map((family) => ({ family, protocol, status: TRANSLATED }));
}

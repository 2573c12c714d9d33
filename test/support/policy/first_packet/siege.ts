import { setImmediate as turn } from "node:timers/promises";
import { type Family, FAMILIES } from "../../../../kernel/ip/address.ts";
import type { MacAddress } from "../../../../kernel/ip/mac.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { encodeFrame, encodeIp, encodeUdp } from "../../../lab/probe/frame.ts";
import { ProbeSocket, SocketType } from "../../../lab/probe/socket.ts";
import type { ComingPod, Neighbour } from "./coming_pod.ts";
import { EarlyLink } from "./early_link.ts";

/** The bridge that gets a pod's frames, and the future index of the pod's interface. */
export interface Link {
  readonly bridgeMac: MacAddress;
  readonly interfaceIndex: number;
}

/** The numbers of packets of each kind that the kernel accepted. */
export interface Taken {
  /** Frames from the pod, past its own IP layer. */
  readonly frames: number;
  /** Datagrams from the pod. */
  readonly sent: number;
  /** Datagrams to the pod. */
  readonly received: number;
}

interface Sender {
  readonly kind: keyof Taken;
  send(): boolean;
}

const DATA = new Uint8Array(24);

/**
 * Senders that never stop: to a pod and from it, in both families, from before the pod has an interface. The kernel
 * retransmits none of their packets, so each one that arrives was let through.
 */
export class Siege implements Disposable {
  readonly #senders: Sender[] = [];
  readonly #ends: Disposable[] = [];
  readonly #taken = { frames: 0, sent: 0, received: 0 };

  /** @param port of both ends, by which a counter recognises the packets */
  constructor(pods: readonly ComingPod[], neighbours: readonly Neighbour[], link: Link, port: number) {
    for (const pod of pods) {
      const raw = this.#owned(new EarlyLink(pod.namespace, link.interfaceIndex, link.bridgeMac));
      for (const family of FAMILIES) {
        const own = pod.addresses[family];
        const socket = this.#open(pod.namespace, family);
        for (const { namespace, addresses } of neighbours) {
          const to = { address: addresses[family], port };
          const packet = encodeIp(encodeUdp(own, to.address, port, DATA));
          const frame = encodeFrame({ from: pod.mac, to: link.bridgeMac, ...packet });
          const outside = this.#open(namespace, family);
          this.#senders.push(
            { kind: "frames", send: () => raw.send(frame) },
            { kind: "sent", send: () => socket.sendTo(DATA, to) >= 0 },
            { kind: "received", send: () => outside.sendTo(DATA, { address: own, port }) >= 0 },
          );
        }
      }
    }
  }

  get taken(): Taken {
    return { ...this.#taken };
  }

  /** Sends until `isOver` is true, and some rounds more. */
  async until(isOver: () => boolean, rounds = 20): Promise<void> {
    for (let left = rounds; left > 0;) {
      for (const sender of this.#senders) if (sender.send()) this.#taken[sender.kind]++;
      await turn();
      if (isOver()) left--;
    }
  }

  [Symbol.dispose](): void {
    for (const end of this.#ends) end[Symbol.dispose]();
  }

  #open(namespace: LabNamespace, family: Family): ProbeSocket {
    const socket = ProbeSocket.open(namespace, family, SocketType.DATAGRAM);
    this.#owned({ [Symbol.dispose]: () => socket.close() });
    return socket;
  }

  #owned<T extends Disposable>(end: T): T {
    this.#ends.push(end);
    return end;
  }
}

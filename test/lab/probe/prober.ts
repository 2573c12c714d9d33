import { randomBytes } from "node:crypto";
import type { Address } from "../../../kernel/ip/address.ts";
import { SyscallError } from "../../../kernel/syscall/syscalls.ts";
import type { Lab } from "../lab.ts";
import type { LabNamespace } from "../namespace.ts";
import { icmp } from "./icmp.ts";
import { ownTime } from "./own_time.ts";
import { Poller } from "./poller.ts";
import {
  type Attempt,
  type Located,
  type Protocol,
  type ProtocolName,
  TOKEN_SIZE,
  tokenKey,
  type Way,
} from "./protocol.ts";
import { sctp } from "./sctp.ts";
import { tcp } from "./tcp.ts";
import { udp } from "./udp.ts";

/** One question: does a packet of this protocol get from here to there, and its answer back? */
export interface Flow extends Way {
  readonly protocol: ProtocolName;
}

/** The measured answer. */
export interface ProbeResult<F extends Flow = Flow> {
  readonly flow: F;
  /** True only when the random token that was sent came back. */
  readonly reached: boolean;
  /** The source address of the token when it arrived at a responder; undefined when none saw it. */
  readonly seenSource: Address | undefined;
  /** The responder's namespace. */
  readonly seenBy: LabNamespace | undefined;
  /** The place where that responder listens. */
  readonly seenAt: Located | undefined;
  /** The time until the answer or the refusal; the timeout when there was neither. */
  readonly milliseconds: number;
  /** Why it was not reached; empty when it was. */
  readonly why: string;
}

export interface ProbeOptions {
  /** The time for an answer, without waits of this process for a processor ({@link ownTime}). Default 1000. */
  readonly timeoutMilliseconds?: number;
  /** The number of simultaneous flows. Default 256. */
  readonly parallel?: number;
  /** Whether packets that may get lost are sent again every 250 ms. Default true. */
  readonly repeats?: boolean;
}

const REPEAT_MILLISECONDS = 250;

const protocols: Readonly<Record<ProtocolName, Protocol>> = { tcp, udp, icmp, sctp };

/** Responders and the flows to them, in one poll loop of this process. */
export class Prober implements Disposable {
  readonly #poller: Poller;
  readonly #sightings = new Map<string, { readonly source: Address; readonly at: Located }>();

  /** @param lab at whose end the prober is closed; one that gets only `calls` is closed by the caller */
  constructor(lab: Pick<Lab, "calls"> & Partial<Pick<Lab, "atEnd">>) {
    this.#poller = new Poller(lab.calls);
    lab.atEnd?.(() => this.close());
  }

  /**
   * Opens a responder at an address of a namespace; it serves until the prober is closed.
   *
   * @throws SyscallError when the kernel refuses the socket
   */
  listen(protocol: ProtocolName, at: Located): void {
    protocols[protocol].respond(this.#poller, at, (token, from) => {
      const key = tokenKey(token);
      if (!this.#sightings.has(key)) this.#sightings.set(key, { source: from.address, at });
    });
  }

  /**
   * Measures flows, many at a time.
   *
   * A refused or lost packet is a result, not an error; so is a socket the kernel does not offer.
   *
   * @param onResult called with each result as it comes, for progress
   * @returns the results in the order of the flows
   */
  async run<F extends Flow>(
    flows: readonly F[],
    options: ProbeOptions = {},
    onResult: (result: ProbeResult<F>) => void = () => {},
  ): Promise<readonly ProbeResult<F>[]> {
    const results = new Map<F, ProbeResult<F>>();
    const pending = new Set<Measurement>();
    const waiting = flows.values();
    const { timeoutMilliseconds: timeout = 1000, repeats = true } = options;
    const startNext = (): boolean => {
      const { value: flow } = waiting.next();
      if (flow === undefined) return false;
      const measurement: Measurement = this.#start(flow, { timeout, repeats }, (result) => {
        pending.delete(measurement);
        results.set(flow, result);
        onResult(result);
      });
      pending.add(measurement);
      return true;
    };
    await this.#poller.runUntil(() => {
      const now = ownTime();
      for (const measurement of pending) measurement.tick(now);
      while (pending.size < (options.parallel ?? 256) && startNext());
      return pending.size === 0;
    });
    return flows.flatMap((flow) => results.get(flow) ?? []);
  }

  close(): void {
    this.#poller.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #start<F extends Flow>(
    flow: F,
    { timeout, repeats }: { readonly timeout: number; readonly repeats: boolean },
    done: (result: ProbeResult<F>) => void,
  ): Measurement {
    const token = new Uint8Array(randomBytes(TOKEN_SIZE));
    const [start, ownStart] = [performance.now(), ownTime()];
    let verdict: { readonly reached: boolean; readonly why: string; readonly at: number } | undefined;
    const judge = (reached: boolean, why: string): void => {
      verdict ??= { reached, why, at: performance.now() };
    };
    const attempt = this.#attempt(flow, token, judge);
    let nextRepeat = repeats ? ownStart + REPEAT_MILLISECONDS : Infinity;
    let isOverdue = false;
    let isSettled = false;
    return {
      // Verdicts come from within socket handlers; the socket is closed and the result reported here, outside of them.
      tick: (now) => {
        // This thread may have been delayed longer than the timeout: one more round receives what has arrived.
        if (isOverdue) judge(false, `no answer within ${timeout} ms`);
        isOverdue = now - ownStart > timeout;
        if (verdict === undefined) {
          if (now < nextRepeat) return;
          nextRepeat = now + REPEAT_MILLISECONDS;
          return attempt?.repeat();
        }
        // poll(2) may have checked the responder before the packet came, and the sender after its answer came: one more
        // round receives what the responder saw.
        if (!isSettled) return void (isSettled = true);
        attempt?.close();
        const seen = this.#sightings.get(tokenKey(token));
        done({
          flow,
          reached: verdict.reached,
          seenSource: seen?.source,
          seenBy: seen?.at.namespace,
          seenAt: seen?.at,
          milliseconds: Math.min(verdict.at - start, timeout),
          why: verdict.why,
        });
      },
    };
  }

  #attempt(flow: Flow, token: Uint8Array, judge: (reached: boolean, why: string) => void): Attempt | undefined {
    const verdict = { reached: () => judge(true, ""), failed: (why: string) => judge(false, why) };
    try {
      return protocols[flow.protocol].attempt(this.#poller, flow, token, verdict);
    } catch (error) {
      if (!(error instanceof SyscallError)) throw error;
      judge(false, error.message);
      return undefined;
    }
  }
}

interface Measurement {
  readonly tick: (now: number) => void;
}

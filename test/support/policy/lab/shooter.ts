import { randomBytes } from "node:crypto";
import type { Address } from "../../../../kernel/ip/address.ts";
import type { LabCalls } from "../../../lab/libc.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { icmp } from "../../../lab/probe/icmp.ts";
import { Poller } from "../../../lab/probe/poller.ts";
import {
  type Attempt,
  type Located,
  type Protocol,
  type ProtocolName,
  TOKEN_SIZE,
  tokenKey,
} from "../../../lab/probe/protocol.ts";
import type { Flow } from "../../../lab/probe/prober.ts";
import { sctp } from "../../../lab/probe/sctp.ts";
import { tcp } from "../../../lab/probe/tcp.ts";
import { udp } from "../../../lab/probe/udp.ts";
import type { PacketCount, PacketCounter } from "./packet_count.ts";

/** A flow of a probe. */
export interface Shot extends Flow {
  /** Whether its destination is an address of its own namespace, so that no other one sees it. */
  readonly isLocal?: boolean;
}

/** The outcome of a flow. */
export interface Fate {
  /** "silent" means no answer and no refusal, which is how policies deny. */
  readonly kind: "answered" | "silent" | "refused";
  /** The reason of a refusal. */
  readonly why: string;
  /** The source address that the receiver saw, and the receiver; undefined where none received it. */
  readonly seenSource: Address | undefined;
  readonly seenBy: LabNamespace | undefined;
}

/** The outcomes of all flows, in their order. */
export interface Fates {
  readonly fates: readonly Fate[];
  /** Why it is not certain that silence means dropped packets: some were lost elsewhere. Empty where it is certain. */
  readonly doubt: string;
}

/** The longest wait on a busy machine; it is never that long where no packet is lost elsewhere. */
const PATIENCE_MILLISECONDS = 20_000;
/** The time without an event after which counters are read. */
const QUIET_MILLISECONDS = 12;
/** TCP sends a second SYN after a second; from then on the counters must also stand still. */
const REPEAT_MILLISECONDS = 900;
const STILL_MILLISECONDS = 300;
/** The time without an event after which nothing more will arrive. */
const DEAD_MILLISECONDS = 3000;

const PROTOCOLS: Readonly<Record<ProtocolName, Protocol>> = { tcp, udp, icmp, sctp };

interface Verdict {
  readonly isAnswered: boolean;
  readonly why: string;
}

interface Sighting {
  readonly source: Address;
  readonly at: Located;
}

interface Round {
  readonly verdicts: ReadonlyMap<number, Verdict>;
  readonly lastEvent: () => number;
}

/**
 * Sends many flows at once and waits exactly until each is decided: answered, refused, or counted as dropped.
 *
 * Every namespace that packets cross counts those that enter and those that leave it. When each packet that was sent or
 * that left for another namespace has entered there, all have been decided, and the number of those without an answer
 * must equal the number of those that did not leave. So a drop is noticed without a timeout, and a late packet is never
 * mistaken for a dropped one.
 */
export class Shooter implements Disposable {
  readonly #poller: Poller;
  readonly #counter: PacketCounter;
  readonly #sightings = new Map<string, Sighting>();
  readonly #patience: number;
  #lastEvent = 0;

  constructor(calls: LabCalls, counter: PacketCounter, patience = PATIENCE_MILLISECONDS) {
    this.#poller = new Poller(calls);
    this.#counter = counter;
    this.#patience = patience;
  }

  /** Opens a responder. @throws SyscallError when the kernel refuses the socket */
  listen(protocol: ProtocolName, at: Located): void {
    PROTOCOLS[protocol].respond(this.#poller, at, (token, from) => {
      this.#lastEvent = performance.now();
      const key = tokenKey(token);
      if (!this.#sightings.has(key)) this.#sightings.set(key, { source: from.address, at });
    });
  }

  /** Sends all flows and returns their outcomes. Only one call may run at a time. */
  async run(shots: readonly Shot[]): Promise<Fates> {
    this.#sightings.clear();
    const before = this.#counter.read();
    const verdicts = new Map<number, Verdict>();
    const tokens = shots.map(() => new Uint8Array(randomBytes(TOKEN_SIZE)));
    const attempts: Attempt[] = [];
    let sent = 0;
    for (const [place, shot] of shots.entries()) {
      const judge = (isAnswered: boolean, why: string): void => {
        this.#lastEvent = performance.now();
        if (!verdicts.has(place)) verdicts.set(place, { isAnswered, why });
      };
      attempts.push(
        PROTOCOLS[shot.protocol].attempt(this.#poller, shot, tokens[place] ?? new Uint8Array(), {
          reached: () => judge(true, ""),
          failed: (why) => judge(false, why),
        }),
      );
      // A packet that the sender's own kernel refuses at once was not sent.
      if (shot.isLocal !== true && !verdicts.has(place)) sent++;
    }
    const round: Round = { verdicts, lastEvent: () => this.#lastEvent };
    const doubt = await this.#untilDecided(before, sent, shots.length, round);
    for (const attempt of attempts) attempt.close();
    const fates = tokens.map((token, place) => cutDecision(verdicts.get(place), this.#sightings.get(tokenKey(token))));
    return { fates, doubt };
  }

  close(): void {
    this.#poller.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** @returns the doubt that remains */
  async #untilDecided(before: PacketCount, sent: number, all: number, round: Round): Promise<string> {
    const start = performance.now();
    let doubt = "";
    let counted = difference(this.#counter.read(), before);
    let changedAt = start;
    let lookedAt = start;
    await this.#poller.runUntil(() => {
      const now = performance.now();
      if (round.verdicts.size === all) {
        doubt = "";
        return true;
      }
      const isBusy = now - Math.max(round.lastEvent(), lookedAt) < QUIET_MILLISECONDS;
      if (isBusy && now - start < this.#patience) return false;
      lookedAt = now;
      const next = difference(this.#counter.read(), before);
      if (next.entered !== counted.entered || next.left !== counted.left) changedAt = now;
      counted = next;
      doubt = doubtOf(counted, sent, all - round.verdicts.size);
      const mayRepeat = now - start > REPEAT_MILLISECONDS;
      const isStill = !mayRepeat || now - changedAt > STILL_MILLISECONDS;
      const isDead = now - Math.max(round.lastEvent(), changedAt) > DEAD_MILLISECONDS;
      return (doubt === "" && isStill) || isDead || now - start > this.#patience;
    });
    return doubt;
  }
}

/** Returns why it is not yet certain that all open flows were dropped; empty when it is. */
function doubtOf({ entered, left, leftByUplink }: PacketCount, sent: number, open: number): string {
  const crossing = sent + leftByUplink;
  if (entered < crossing) return `of ${crossing} packets sent or passed on, ${entered} arrived where policies apply`;
  const dropped = crossing - left;
  return open > Math.max(dropped, 0) ? `${open} without an answer, but only ${dropped} dropped` : "";
}

function difference(now: PacketCount, before: PacketCount): PacketCount {
  return {
    entered: now.entered - before.entered,
    left: now.left - before.left,
    leftByUplink: now.leftByUplink - before.leftByUplink,
  };
}

function cutDecision(verdict: Verdict | undefined, sighting: Sighting | undefined): Fate {
  const seen = { seenSource: sighting?.source, seenBy: sighting?.at.namespace };
  if (verdict === undefined) return { kind: "silent", why: "", ...seen };
  return { kind: verdict.isAnswered ? "answered" : "refused", why: verdict.why, ...seen };
}

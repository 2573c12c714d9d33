import { Buffer } from "node:buffer";
import type { Cancel, Clock } from "../../policyd/lib/clock.ts";
import type { AnswerHandler, ApiConnection } from "../../policyd/sources/api/connection/connection.ts";
import type { Api } from "./api.ts";
import type { Answer } from "./watch.ts";

/** An API server in this process, driven by a clock: every part of an answer takes a millisecond, in order. */
export class MemoryConnection implements ApiConnection {
  readonly name = "https://cluster.test:6443";
  readonly #api: Api;
  readonly #clock: Clock;
  readonly #chunkSize: () => number;
  /** Whether connections are refused. */
  isDown = false;
  /** The milliseconds for which a request waits before the server sees it. */
  delayOf: (path: string) => number = () => 0;
  /** The milliseconds between two bytes of the body of each answer that begins now; 0 for whole pieces. */
  trickle = 0;
  /** The number of requests, including failed ones. */
  attempts = 0;
  readonly #open = new Set<AnswerHandler>();

  /** @param chunkSize bytes of the next piece of a body */
  constructor(api: Api, clock: Clock, chunkSize: () => number = () => 65_536) {
    this.#api = api;
    this.#clock = clock;
    this.#chunkSize = chunkSize;
  }

  /** Ends the server: open requests are reset, and new connections are refused. */
  goDown(): void {
    this.isDown = true;
    this.#api.dropAll();
    for (const handler of this.#open) handler.failed("read ECONNRESET");
    this.#open.clear();
  }

  get(path: string, handler: AnswerHandler): Cancel {
    this.attempts++;
    let isOver = false;
    let leave: Cancel = () => {};
    const { trickle } = this;
    let arrived = 0;
    const later = (action: () => void, wait = 0): void => {
      arrived = Math.max(arrived, this.#clock.now()) + wait;
      this.#clock.after(arrived - this.#clock.now() + 1, () => {
        if (!isOver) action();
      });
    };
    const last = (action: () => void): void =>
      later(() => {
        isOver = true;
        this.#open.delete(handler);
        action();
      });
    if (this.isDown) {
      last(() => handler.failed("connect ECONNREFUSED"));
    } else {
      this.#open.add(handler);
      const answer: Answer = {
        head: (status, headers) => later(() => handler.answered(status, retryAfterOf(headers))),
        write: (text) => {
          const bytes = Buffer.from(text);
          for (let at = 0; at < bytes.length;) {
            const end = at + (trickle > 0 ? 1 : Math.max(1, this.#chunkSize()));
            const chunk = bytes.subarray(at, end);
            later(() => handler.data(chunk), trickle);
            at = end;
          }
        },
        end: () => last(() => handler.ended()),
        reset: () => last(() => handler.failed("read ECONNRESET")),
      };
      const open = (): void => void (leave = this.#api.open(path, undefined, answer));
      const delay = this.delayOf(path);
      if (delay === 0) open();
      else leave = this.#clock.after(delay, open);
    }
    return () => {
      isOver = true;
      this.#open.delete(handler);
      leave();
    };
  }
}

function retryAfterOf(headers: Readonly<Record<string, string>>): number | undefined {
  return headers["retry-after"] === undefined ? undefined : Number(headers["retry-after"]);
}

import { randomInt } from "node:crypto";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Reply } from "../../kernel/netlink/socket.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import { changeLink, deleteLinkGroup } from "../../kernel/route/link.ts";

/** What carries out requests about links. */
export interface LinkWriter {
  batch(requests: readonly Request[]): readonly Reply[];
  /** Carries out one request without holding up the event loop, however long the kernel takes. */
  inBackground(request: Request): Promise<Reply>;
}

/** Groups of interfaces are numbers; those below are for administrators (/etc/iproute2/group). */
const LOWEST_GROUP = 0x4000_0000;
const HIGHEST_GROUP = 0x7fff_ffff;

interface Waiting {
  readonly hostInterface: string;
  readonly settle: (error: DrawbridgeError | undefined) => void;
}

/**
 * Removes the links of pods that go at the same time by one request.
 *
 * Removing a veth pair takes the kernel some 15 ms of waiting for readers (RCU), and as long for a hundred of them in
 * one request. Those asked for while one removal is under way are put into an interface group of their own and removed
 * together after it. The group's number is drawn anew each time, so no link of anybody else is in it.
 */
export class LinkRemoval {
  readonly #writer: LinkWriter;
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(writer: LinkWriter) {
    this.#writer = writer;
  }

  /**
   * Settles when the link and its peer are gone, at once when there is none.
   *
   * @throws DrawbridgeError when the kernel refuses or does not answer
   */
  async remove(hostInterface: string): Promise<void> {
    const error = await new Promise<DrawbridgeError | undefined>((settle) => {
      this.#waiting.push({ hostInterface, settle });
      if (!this.#isRunning) {
        this.#isRunning = true;
        // What else is asked for in this turn of the event loop goes along.
        setImmediate(() => void this.#run());
      }
    });
    if (error !== undefined) throw error;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const together = this.#waiting;
      this.#waiting = [];
      // One at a time by design: what comes meanwhile is the next group.
      await this.#removeGroup(together).catch((error: unknown) => {
        // Those that are settled stay so; the others must not wait for ever. What is no DrawbridgeError is a bug.
        if (!(error instanceof DrawbridgeError)) throw error;
        for (const { settle } of together) settle(error);
      });
    }
    this.#isRunning = false;
  }

  async #removeGroup(together: readonly Waiting[]): Promise<void> {
    const group = randomInt(LOWEST_GROUP, HIGHEST_GROUP);
    const replies = this.#writer.batch(
      together.map(({ hostInterface }) => changeLink({ name: hostInterface }, { group })),
    );
    const grouped = together.filter((_, index) => replies[index]?.error === undefined);
    const removal = grouped.length === 0 ? undefined : await this.#writer.inBackground(deleteLinkGroup(group));
    for (const [index, { settle }] of together.entries()) {
      const error = replies[index]?.error;
      if (error === undefined) settle(removal?.error);
      else settle(error.errnoName === "ENODEV" ? undefined : error);
    }
  }
}

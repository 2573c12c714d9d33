import { randomInt } from "node:crypto";
import type { AttachmentRecord } from "../../ipam/attachment.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Reply } from "../../kernel/netlink/socket.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import { changeLink, deleteLinkGroup, getLink, parseLink } from "../../kernel/route/link.ts";
import { deleteNeighbour } from "../../kernel/route/neighbour.ts";

/** What carries out requests about links. */
export interface LinkWriter {
  batch(requests: readonly Request[]): readonly Reply[];
  /** Carries out one request without holding up the event loop or other requests, however long the kernel takes. */
  inBackground(request: Request): Promise<Reply>;
}

/** Groups of interfaces are numbers; those below are for administrators (/etc/iproute2/group). */
const LOWEST_GROUP = 0x4000_0000;
const HIGHEST_GROUP = 0x7fff_ffff;
/** The removal takes the kernel's lock for links before the first question as a rule, and before the second else. */
const QUESTIONS = 3;

/** A pod's link, and what its bridge has of it. */
export type RemovedLink = Pick<AttachmentRecord, "hostInterface" | "bridge" | "addresses">;

interface Waiting {
  readonly link: RemovedLink;
  readonly settle: (error: DrawbridgeError | undefined) => void;
}

/**
 * Removes the links of pods that go at the same time by one request.
 *
 * Removing a veth pair takes the kernel some 15 ms of waiting for readers (RCU), and as long for a hundred of them in
 * one request. Those asked for while one removal is under way are put into an interface group of their own and removed
 * together after it. The group's number is drawn anew each time, so no link of anybody else is in it.
 *
 * Most of that time the links are gone: closed, without packets on their way and out of every table. The kernel gives its
 * lock for links back then, and waits for readers of the memory that it frees before it answers (rtnl_unlock and
 * netdev_run_todo of net/core). Whoever asks for one of them meanwhile, in a request that needs the lock, is told so.
 *
 * The neighbours go between two removals: the plugin, which would have to wait for the kernel's lock for links, then has
 * nothing to ask the kernel for.
 */
export class LinkRemoval {
  readonly #writer: LinkWriter;
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(writer: LinkWriter) {
    this.#writer = writer;
  }

  /**
   * Settles when the link and its peer are gone, if there were any, and then the neighbours that stay on the bridge.
   *
   * @throws DrawbridgeError when the kernel refuses or does not answer
   */
  async remove(link: RemovedLink): Promise<void> {
    const error = await new Promise<DrawbridgeError | undefined>((settle) => {
      this.#waiting.push({ link, settle });
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
    const replies = this.#writer.batch(together.map(({ link }) => changeLink({ name: link.hostInterface }, { group })));
    const grouped = together.filter((_, index) => replies[index]?.error === undefined);
    const [first] = grouped;
    const removal = first && this.#writer.inBackground(deleteLinkGroup(group));
    const refusal = removal && (await this.#untilGone(removal, first.link, group));
    const gone: Waiting[] = [];
    for (const [index, waiting] of together.entries()) {
      const error = replies[index]?.error ?? refusal;
      if (error === undefined || error.errnoName === "ENODEV") gone.push(waiting);
      else waiting.settle(error);
    }
    const failures = this.#forgetNeighbours(gone.map(({ link }) => link));
    for (const { link, settle } of gone) settle(failures.get(link));
    // Who comes until the kernel has answered is the next group: one removal more costs them more than this wait.
    await removal;
  }

  /** Settles when the links of a group are gone. @returns why they are not, when the kernel refuses */
  async #untilGone(
    removal: Promise<Reply>,
    { hostInterface: name }: RemovedLink,
    group: number,
  ): Promise<Reply["error"]> {
    for (let asked = 0; asked < QUESTIONS; asked++) {
      // It has this group already, so nothing changes where it is still there.
      const question = this.#writer.inBackground(changeLink({ name }, { group }));
      const answer = await Promise.race([removal, question.then(isGone, untold)]);
      if (answer === true) return undefined;
      if (answer !== false) return answer.error;
    }
    return (await removal).error;
  }

  /** Permanent entries stay on the bridge when a pod's link goes. @returns what the kernel refused, by the link */
  #forgetNeighbours(links: readonly RemovedLink[]): ReadonlyMap<RemovedLink, DrawbridgeError> {
    const indices = this.#indicesOf(new Set(links.map(({ bridge }) => bridge)));
    const entries = links.flatMap((link) => {
      const index = indices.get(link.bridge);
      return index === undefined ? [] : link.addresses.map(({ address }) => ({ link, index, address }));
    });
    const replies = this.#writer.batch(entries.map(({ index, address }) => deleteNeighbour(index, address)));
    const failures = new Map<RemovedLink, DrawbridgeError>();
    for (const [position, { link }] of entries.entries()) {
      const error = replies[position]?.error;
      // ENODEV: the bridge has gone since, and its neighbours with it.
      if (error !== undefined && !["ENOENT", "ENODEV"].includes(error.errnoName)) failures.set(link, error);
    }
    return failures;
  }

  /** The indices of those links that are there. */
  #indicesOf(names: ReadonlySet<string>): ReadonlyMap<string, number> {
    const replies = this.#writer.batch([...names].map((name) => getLink({ name })));
    const found = replies.flatMap(({ messages }) => messages.slice(0, 1).map(parseLink));
    return new Map(found.map(({ name, index }) => [name, index]));
  }
}

function isGone({ error }: Reply): boolean {
  return error?.errnoName === "ENODEV";
}

/** A question that is not answered tells nothing; the removal's own answer will. @throws what is no DrawbridgeError */
function untold(error: unknown): false {
  if (!(error instanceof DrawbridgeError)) throw error;
  return false;
}

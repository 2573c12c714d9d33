import { randomInt } from "node:crypto";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Reply } from "../../kernel/netlink/socket.ts";
import { SocketPool } from "../../kernel/netlink/socket_pool.ts";
import type { Request } from "../../kernel/netlink/message.ts";
import { changeLink, deleteLinkGroup, getLink, parseLink } from "../../kernel/route/link.ts";
import { deleteNeighbour } from "../../kernel/route/neighbour.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import type { BackgroundCalls } from "../../kernel/syscall/background_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";

/** Carries out requests about links. */
export interface LinkWriter {
  batch(requests: readonly Request[]): readonly Reply[];
  /**
   * Carries out one request without holding up the event loop or other requests, however long the kernel takes.
   *
   * @throws DrawbridgeError (by the promise) when the kernel does not answer
   */
  inBackground(request: Request): Promise<Reply>;
}

/** The range of the interface groups we use; lower numbers are for administrators (/etc/iproute2/group). */
const LOWEST_GROUP = 0x4000_0000;
const HIGHEST_GROUP = 0x7fff_ffff;
/** The most checks for a link: the removal mostly has the lock before the first one, otherwise before the second. */
const QUESTIONS = 3;

/** A pod's link, and the pod's addresses with neighbour entries on its bridge. */
export type RemovedLink = Pick<AttachmentRecord, "hostInterface" | "bridge" | "addresses">;

interface Waiting {
  readonly link: RemovedLink;
  readonly isReplaced: () => boolean;
  /** Called with true when the pod's link is gone, false when another pod's link stays, or the kernel's error. */
  readonly settle: (result: boolean | DrawbridgeError) => void;
}

/**
 * Removes the links of pods that go at the same time by one request.
 *
 * To remove a veth pair the kernel waits some 15 ms for readers (RCU), and no longer for a hundred pairs in one
 * request. Links whose removal is requested while another removal is in progress are put into one interface group and
 * removed together after it. The group's number is random, so no other program's link is in it.
 *
 * For most of that time the links are already gone: closed, without packets in transit, and in no table. The kernel
 * releases its lock for links (RTNL) and waits for readers of the memory that it frees before it answers (rtnl_unlock
 * and netdev_run_todo of net/core). A request for one of these links that needs the lock then fails with ENODEV.
 *
 * The neighbour entries are removed between two removals of links. The plugin, which would have to wait for that lock,
 * then needs nothing from the kernel.
 */
export class LinkRemoval {
  readonly #writer: LinkWriter;
  #waiting: Waiting[] = [];
  #isRunning = false;

  constructor(writer: LinkWriter) {
    this.#writer = writer;
  }

  /**
   * Settles when the link and its peer are gone, if they existed, and then also their neighbour entries on the bridge.
   *
   * @param isReplaced asked at the last moment whether another pod has the link of that name, which then stays
   * @returns false where it stays
   * @throws DrawbridgeError when the kernel refuses or does not answer
   */
  async remove(link: RemovedLink, isReplaced: () => boolean = () => false): Promise<boolean> {
    const result = await new Promise<boolean | DrawbridgeError>((settle) => {
      this.#waiting.push({ link, isReplaced, settle });
      if (!this.#isRunning) {
        this.#isRunning = true;
        // Other removals requested in this turn of the event loop join this one.
        setImmediate(() => void this.#run());
      }
    });
    if (typeof result !== "boolean") throw result;
    return result;
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      const together = this.#waiting;
      this.#waiting = [];
      // One at a time by design: removals requested meanwhile form the next group.
      await this.#removeGroup(together).catch((error: unknown) => {
        // Settled promises stay settled; the others must not wait forever. Any other error is a bug.
        if (!(error instanceof DrawbridgeError)) throw error;
        for (const { settle } of together) settle(error);
      });
    }
    this.#isRunning = false;
  }

  async #removeGroup(requested: readonly Waiting[]): Promise<void> {
    const together = requested.filter(({ isReplaced, settle }) => {
      const isMeant = !isReplaced();
      if (!isMeant) settle(false);
      return isMeant;
    });
    const group = randomInt(LOWEST_GROUP, HIGHEST_GROUP);
    const replies = this.#writer.batch(together.map(({ link }) => changeLink({ name: link.hostInterface }, { group })));
    const grouped = together.filter((_, index) => replies[index]?.error === undefined);
    const [first] = grouped;
    const removal = first && this.#writer.inBackground(deleteLinkGroup(group));
    const refusal = removal && (await this.#untilGone(removal, first.link));
    const gone: Waiting[] = [];
    for (const [index, waiting] of together.entries()) {
      const error = replies[index]?.error ?? refusal;
      if (error === undefined || error.errnoName === "ENODEV") gone.push(waiting);
      else waiting.settle(error);
    }
    const failures = this.#forgetNeighbours(gone.map(({ link }) => link));
    for (const { link, settle } of gone) settle(failures.get(link) ?? true);
    // Wait for the kernel's answer, so that removals requested until then share a group: another one costs them more.
    await removal;
  }

  /** Settles when the links of a group are gone. @returns the error when the kernel refuses to remove them */
  async #untilGone(removal: Promise<Reply>, { hostInterface: name }: RemovedLink): Promise<Reply["error"]> {
    for (let asked = 0; asked < QUESTIONS; asked++) {
      // The request changes nothing where the link still exists, or a later one of its name.
      const question = this.#writer.inBackground(changeLink({ name }, {}));
      const answer = await Promise.race([removal, question.then(isGone, unreported)]);
      if (answer === true) return undefined;
      if (answer !== false) return answer.error;
    }
    return (await removal).error;
  }

  /** Deletes the neighbour entries, which are permanent and outlive the links. @returns refusals by link */
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

  /** Returns the indices of the links that exist. */
  #indicesOf(names: ReadonlySet<string>): ReadonlyMap<string, number> {
    const replies = this.#writer.batch([...names].map((name) => getLink({ name })));
    const found = replies.flatMap(({ messages }) => messages.slice(0, 1).map(parseLink));
    return new Map(found.map(({ name, index }) => [name, index]));
  }
}

function isGone({ error }: Reply): boolean {
  return error?.errnoName === "ENODEV";
}

/** Returns that a request without an answer proves nothing: the removal's own answer decides. @throws other errors */
function unreported(error: unknown): false {
  if (!(error instanceof DrawbridgeError)) throw error;
  return false;
}

/**
 * Opens the sockets by which pods' links are removed, in this thread's network namespace: one for requests that are
 * answered at once, and one for each request in the background, which needs a socket of its own.
 *
 * @throws SyscallError when the kernel refuses a socket
 */
export function openLinkSockets(calls: Syscalls & BackgroundCalls): LinkWriter {
  const foreground = openRouteSocket(calls);
  const background = new SocketPool(() => openRouteSocket(calls));
  return {
    batch: (requests) => foreground.batch(requests),
    inBackground: (request) => background.with((socket) => socket.inBackground(request, calls)),
  };
}

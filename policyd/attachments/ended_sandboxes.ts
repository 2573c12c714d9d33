import { areOfOneName, isEarlierSandbox } from "../../cni/del/ended_sandbox.ts";
import { displayName, HOST_INTERFACE_PREFIX } from "../../attachment/names_and_macs.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { AttachmentName } from "../../attachment/policyd_messages.ts";
import { ENDED_SECONDS, endedSince, forgetEnded, markEnded } from "../../attachment/ended.ts";
import { uptime } from "../../cni/status/failure_record.ts";
import type { AttachmentPresence } from "./attachment_exists.ts";
import type { Machine } from "../machine.ts";
import { attempt, DrawbridgeError } from "../../kernel/error.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { linkIdentity } from "../../kernel/route/link.ts";
import { AF_BRIDGE, Notification } from "../../kernel/route/notification.ts";
import type { Cancel } from "../lib/clock.ts";
import type { ObjectChange, Pod } from "../../objects/model.ts";
import type { Forgetter, ObjectConsumer, PodGate } from "../component.ts";
import type { FileReadCalls } from "../../kernel/syscall/file_calls.ts";
import { attachmentKey, isPodOf } from "./registry.ts";

/** Milliseconds between two checks for ended sandboxes. */
const PERIOD = 10_000;
/**
 * Milliseconds from the first sync to the first check. It is short, so that what ended long ago goes soon, and long
 * enough for every ADD in progress to find this daemon.
 */
const FIRST_LOOK = 6000;
/**
 * Milliseconds that an ADD may take from its registration until its link exists, which it makes at once.
 */
const MAKING = 60_000;
/** Milliseconds from this daemon's start until an ADD in progress has registered with it: the ADD tries every 20 ms. */
const RETURNING = 5000;

export interface EndedSandboxesParts
  extends AttachmentPresence, Pick<Machine, "files" | "attachments" | "clock" | "logger" | "nodeName"> {
  readonly stateDirectory: string;
  readonly syscalls: FileReadCalls;
}

/**
 * Finds sandboxes that ended without DEL: the link is gone, and the Pod is gone, has finished or has another sandbox.
 * Such a sandbox loses its host ports to the next pod that wants them. A quarter of an hour later the daemon forgets
 * it, and the next ADD releases its addresses (cni/gc/ended.ts).
 *
 * An ADD in progress has no link yet. So a link counts as gone only if it was seen before, or if it is missing a minute
 * after the registration. An unknown Pod proves nothing by itself: the API server may not have listed it yet.
 */
export class EndedSandboxes implements ObjectConsumer, PodGate {
  readonly #parts: EndedSandboxesParts;
  /**
   * Whether the links of pods that the kernel has reported are there, by name. A link that existed and no longer does is
   * gone; one that was never seen may still be made by an ADD.
   */
  readonly #links = new Map<string, boolean>();
  /** The time of registration by attachment key, without the attachments that were read from records. */
  readonly #registered = new Map<string, number>();
  /** The Pods of this node, by their keys. */
  readonly #pods = new Map<string, Pod>();
  /** The keys of attachments that this daemon knows as marked. */
  readonly #marked = new Set<string>();
  readonly #begunAt: number;
  #daemon: Forgetter | undefined;
  #isSynced = false;
  #timer: Cancel = () => {};

  constructor(parts: EndedSandboxesParts) {
    this.#parts = parts;
    this.#begunAt = parts.clock.now();
  }

  begin(daemon: Forgetter): void {
    this.#daemon = daemon;
    this.lookAgain();
  }

  /** Handles notifications of the kernel. @throws DrawbridgeError ERR_NETLINK_MALFORMED when one cannot be parsed */
  take(messages: readonly ReceivedMessage[]): void {
    for (const message of messages) {
      const { type, body } = message;
      // A link that leaves its bridge is reported as deleted, in the bridge's family.
      if ((type !== Notification.NEWLINK && type !== Notification.DELLINK) || body[0] === AF_BRIDGE) continue;
      const { name } = linkIdentity(message);
      if (name.startsWith(HOST_INTERFACE_PREFIX)) this.#links.set(name, type === Notification.NEWLINK);
    }
  }

  /** Checks whether each link exists: at the start, and after notifications were lost. */
  lookAgain(): void {
    for (const attachment of this.#parts.attachments.values()) {
      const { hostInterface } = attachment;
      if (this.#parts.hasLink(attachment)) this.#links.set(hostInterface, true);
      else if (this.#isSeen(attachment)) this.#links.set(hostInterface, false);
    }
  }

  apply(changes: readonly ObjectChange[]): void {
    for (const change of changes) {
      if (change.kind !== "Pod") continue;
      const pod = change.type === "set" && change.object.kind === "Pod" ? change.object : undefined;
      if (pod?.nodeName === this.#parts.nodeName) this.#pods.set(change.key, pod);
      else this.#pods.delete(change.key);
    }
  }

  synced(): void {
    this.#isSynced = true;
    this.#timer = this.#parts.clock.after(FIRST_LOOK, () => this.#look());
  }

  async register(attachment: AttachmentRecord): Promise<void> {
    this.#registered.set(attachmentKey(attachment), this.#parts.clock.now());
  }

  async unregister(name: AttachmentName): Promise<void> {
    this.#registered.delete(attachmentKey(name));
    this.#marked.delete(attachmentKey(name));
  }

  async stop(): Promise<void> {
    this.#timer();
  }

  /** Whether an attachment loses its host ports and addresses to another that wants them. */
  givesWay(holder: AttachmentRecord, taker: AttachmentRecord): boolean {
    // Attachments from before the daemon have their ports in the plugin's tables, and the plugin frees them.
    if (holder.policyd === undefined) return false;
    if (isEarlierSandbox(holder, taker)) return true;
    return this.#isLinkGone(holder) && (areOfOneName(holder, taker) || this.#hasNoPod(holder));
  }

  /** Marks an attachment that has lost its ports, so that the rest of it is removed later. */
  gaveWay(holder: AttachmentRecord): void {
    this.#mark(holder);
  }

  /** Whether an attachment is known to have ended. Where two want the same, it comes after those that have not. */
  hasEnded(attachment: AttachmentRecord): boolean {
    const { stateDirectory, files } = this.#parts;
    const isMarked = endedSince(stateDirectory, attachment, files) !== undefined;
    return isMarked || (this.#isLinkGone(attachment) && this.#hasNoPod(attachment));
  }

  #isSeen({ hostInterface }: AttachmentRecord): boolean {
    return this.#links.get(hostInterface) === true;
  }

  #isLinkGone(attachment: AttachmentRecord): boolean {
    const { clock, hasLink } = this.#parts;
    const registered = this.#registered.get(attachmentKey(attachment));
    const left = registered === undefined ? this.#begunAt + RETURNING : registered + MAKING;
    return (this.#links.has(attachment.hostInterface) || clock.now() >= left) && !hasLink(attachment);
  }

  /** Whether the attachment's Pod is gone, has finished, or has another sandbox. */
  #hasNoPod(attachment: AttachmentRecord): boolean {
    const { pod } = attachment;
    if (pod === undefined || !this.#isSynced) return false;
    const found = this.#pods.get(`${pod.namespace}/${pod.name}`);
    if (found === undefined || !isPodOf(attachment, found)) return true;
    if (found.phase === "Succeeded" || found.phase === "Failed") return true;
    return [...this.#parts.attachments.values()].some(
      (other) => areOfOneName(attachment, other) && this.#isSeen(other),
    );
  }

  #look(): void {
    const { attachments, clock } = this.#parts;
    const names = new Set<string>();
    for (const attachment of attachments.values()) {
      names.add(attachment.hostInterface);
      // A link that was seen needs no request to the kernel.
      const isThere = this.#isSeen(attachment) || !this.#isLinkGone(attachment);
      // Neither a link nor a record is left: its DEL found no daemon.
      if (!isThere && !this.#parts.isPresent(attachment)) this.#forgetLogged(attachment);
      else if (isThere || !this.#hasNoPod(attachment)) this.#clear(attachment);
      else this.#follow(attachment);
    }
    for (const name of this.#links.keys()) if (!names.has(name)) this.#links.delete(name);
    this.#timer = clock.after(PERIOD, () => this.#look());
  }

  /** Marks an ended attachment, and forgets it once it has been marked for {@link ENDED_SECONDS}. */
  #follow(attachment: AttachmentRecord): void {
    const { logger } = this.#parts;
    const isNew = !this.#marked.has(attachmentKey(attachment));
    const seconds = this.#mark(attachment);
    const fields = { pod: displayName(attachment), containerId: attachment.containerId };
    if (isNew) logger.info("a pod has ended without DEL: what is left of it is removed in 15 minutes", fields);
    if (seconds < ENDED_SECONDS) return;
    this.#forgetLogged(attachment);
  }

  #forgetLogged(attachment: AttachmentRecord): void {
    this.#daemon?.unregister(attachment).catch((error: unknown) => {
      if (!(error instanceof DrawbridgeError)) throw error;
      const fields = { pod: displayName(attachment), reason: error.message };
      this.#parts.logger.warn("a pod that has ended is not forgotten yet", fields);
    });
  }

  /**
   * Marks an attachment by a file beside its record, where the next daemon and the plugin find it.
   *
   * @returns the seconds since it was marked; 0 where the mark cannot be written
   */
  #mark(attachment: AttachmentRecord): number {
    const { stateDirectory, files, syscalls } = this.#parts;
    try {
      const seconds = uptime({ syscalls });
      if (seconds === undefined) return 0;
      const moment = { bootId: attachment.bootId, seconds };
      const since = markEnded(stateDirectory, attachment.network, attachment, moment, files);
      this.#marked.add(attachmentKey(attachment));
      return seconds - since;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      this.#parts.logger.warn("an ended pod is not marked, so its address stays longer", { reason: error.message });
      return 0;
    }
  }

  #clear(attachment: AttachmentRecord): void {
    if (!this.#marked.delete(attachmentKey(attachment))) return;
    const { stateDirectory, files } = this.#parts;
    attempt(
      () => forgetEnded(stateDirectory, attachment.network, attachment, files),
      () => {},
    );
  }
}

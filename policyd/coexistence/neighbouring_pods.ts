import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { AttachmentName } from "../../attachment/policyd_messages.ts";
import type { Machine } from "../machine.ts";
import { attempt } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import type { PodGate } from "../component.ts";
import type { BesideKernel } from "./beside_kernel.ts";
import {
  besideChange,
  type BesideEntries,
  besideEntries,
  isNothing,
  type NeighbouringBridge,
} from "./neighbouring_bridges.ts";

/** Milliseconds from a notification to the check: a bridge gets its addresses one after the other. */
const SETTLE_MILLISECONDS = 50;
/** Sync periods between two checks while nothing is left to do: a check lists all links. */
const QUIET_PERIODS = 10;

export interface NeighbouringPodsParts extends Pick<Machine, "attachments" | "clock" | "logger"> {
  readonly kernel: BesideKernel;
  readonly bridge: string;
  /** Milliseconds between two checks without a notification. */
  readonly syncPeriod: number;
}

/**
 * Lets our pods and those of another plugin reach each other and the node while both exist (FOREIGN-03).
 *
 * After a change of plugins, pods of the former plugin stay on its bridge until they are recreated, and usually both
 * bridges have the node's pod CIDR. On a node without such a bridge a check is a list of links and addresses, and a pod
 * costs nothing.
 */
export class NeighbouringPods implements PodGate {
  readonly #parts: NeighbouringPodsParts;
  #bridges: readonly NeighbouringBridge[] = [];
  /** Our entries in the kernel as we made them; undefined until they are read: an earlier daemon may have made some. */
  #present: BesideEntries | undefined;
  #problems: readonly string[] = [];
  readonly #loop: ControlLoop;

  constructor(parts: NeighbouringPodsParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#look(), pause: () => SETTLE_MILLISECONDS });
  }

  /** Looks again soon, since addresses of links may have changed. */
  lookSoon(): void {
    this.#loop.enqueue();
  }

  begin(): void {
    this.#loop.run();
  }

  async register(attachment: AttachmentRecord): Promise<void> {
    if (attachment.bridge !== this.#parts.bridge) return;
    const wanted = besideEntries(addressesOf(attachment), this.#bridges);
    if (!isNothing(wanted)) this.#reconcile();
  }

  async unregister(name: AttachmentName): Promise<void> {
    const attachment = this.#parts.attachments.get(name);
    if (attachment === undefined || this.#hasNone) return;
    this.#reconcile(attachment);
  }

  problems(): readonly string[] {
    return this.#problems;
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
    this.#parts.kernel.close();
  }

  #look(): number {
    const { kernel, syncPeriod, logger } = this.#parts;
    this.#attempt(() => {
      this.#bridges = kernel.bridges();
      const desired = this.#desired();
      if (isNothing(desired) && this.#hasNone) return;
      if (!isNothing(desired) && (this.#present === undefined || this.#hasNone))
        logger.info("pods of another plugin have the same network", { bridges: this.#names });
      this.#change(desired, kernel.read());
    });
    const isQuiet = this.#problems.length === 0 && this.#hasNone;
    return isQuiet ? QUIET_PERIODS * syncPeriod : syncPeriod;
  }

  /** @param leaving an attachment that is still in the registry but is being removed */
  #reconcile(leaving?: AttachmentRecord): void {
    const { kernel } = this.#parts;
    this.#attempt(() => this.#change(this.#desired(leaving), this.#present ?? kernel.read()));
  }

  #change(desired: BesideEntries, present: BesideEntries): void {
    const change = besideChange(desired, present);
    this.#problems = [];
    this.#present = present;
    if (isNothing(change.added) && isNothing(change.removed)) return;
    const refused = this.#parts.kernel.apply(change, this.#bridges);
    this.#present = desired;
    this.#report(refused);
  }

  #attempt(action: () => void): void {
    attempt(action, (error) => this.#report([error.message]));
  }

  #report(reasons: readonly string[]): void {
    const problems = reasons.map((reason) => `pods of another plugin on ${this.#names} are not reached: ${reason}`);
    const isNew = problems.some((problem) => !this.#problems.includes(problem));
    this.#problems = problems;
    if (isNew) this.#parts.logger.warn("bridges beside ours", { reason: problems.join("; ") });
  }

  get #hasNone(): boolean {
    return this.#present !== undefined && isNothing(this.#present);
  }

  get #names(): string {
    return this.#bridges.map(({ name }) => name).join(", ");
  }

  #desired(leaving?: AttachmentRecord): BesideEntries {
    const pods: Address[] = [];
    for (const attachment of this.#parts.attachments.values()) {
      if (attachment !== leaving && attachment.bridge === this.#parts.bridge) pods.push(...addressesOf(attachment));
    }
    return besideEntries(pods, this.#bridges);
  }
}

function addressesOf({ addresses }: AttachmentRecord): readonly Address[] {
  return addresses.map(({ address }) => address);
}

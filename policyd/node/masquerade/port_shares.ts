import type { PortRange } from "../../../kernel/ip/port_range.ts";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import type { AttachmentName } from "../../../attachment/policyd_messages.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { attachmentKey } from "../../attachments/registry.ts";
import type { Clock } from "../../lib/clock.ts";
import { ControlLoop } from "../../lib/control_loop.ts";
import type { ObjectConsumer, PodGate } from "../../component.ts";
import type { ObjectChange } from "../../../objects/model.ts";
import type { Ruleset } from "../../ruleset/ruleset.ts";
import type { Logger } from "../../log/logger.ts";
import { INET_TABLE } from "../../ruleset/table_part.ts";
import {
  LEAST_PORTS,
  MOST_SHARES,
  type NodePorts,
  type PodPorts,
  podPorts,
  type Share,
  shareCount,
  sharesOf,
  sizeOf,
} from "./port_ranges.ts";
import type { ServicePorts } from "./service_ports.ts";
import { podShareElement, shareChain, shareElement } from "./share_rules.ts";

/** The fields of an attachment that decide its share. */
export type SharingAttachment = Pick<
  AttachmentRecord,
  "network" | "containerId" | "ifname" | "addresses" | "portMappings" | "ipMasq"
>;

export interface PortShareParts {
  /** The ruleset whose inet table has the part `portShares()`. */
  readonly ruleset: Pick<Ruleset, "claim" | "provide">;
  /** Reads the ports of the node, with those of `services`. @throws DrawbridgeError on failure */
  readonly ports: () => NodePorts;
  readonly services: Pick<ServicePorts, "apply">;
  /** Returns the current attachments. */
  readonly attachments: () => Iterable<SharingAttachment>;
  /** Whether an attachment may leave with the node's address. */
  readonly isNeeded: (attachment: SharingAttachment) => boolean;
  readonly clock: Clock;
  readonly logger: Pick<Logger, "warn" | "info">;
}

/** How often the node's ports are read again. In between, a pod rarely meets a port that a program has just bound. */
const READ_MILLISECONDS = 60_000;
/** How soon they are read after a change of a Service: the rules of all shares may have to be written each time. */
const SERVICE_MILLISECONDS = 5000;
/** Used where nothing can be read: the kernel's default. */
const UNREAD: NodePorts = { local: { first: 32_768, last: 60_999 }, taken: [] };

/**
 * Gives each pod of the node its share of the source ports for traffic that leaves with the node's address (POD-25).
 *
 * A pod keeps its number for its lifetime. The share of a number changes only when the number of shares or the node's
 * ports change. Connections continue with the port they have. A port that a program or a pod once
 * had stays excluded while shares are large enough, so a program that binds ports again and again changes no rules.
 */
export class PortShares implements ObjectConsumer, PodGate {
  readonly #parts: PortShareParts;
  /** Numbers by container ID. */
  readonly #numbers = new Map<string, number>();
  #taken: ReadonlyMap<number, PortRange> = new Map();
  /** Those of `#taken` that only Services have. */
  #served: ReadonlySet<PortRange> = new Set();
  #local = UNREAD.local;
  #podPorts: PodPorts | undefined;
  #shares: readonly Share[] = [];
  readonly #loop: ControlLoop;
  #hasFailed = false;

  constructor(parts: PortShareParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#readAgain() });
  }

  begin(): void {
    this.#loop.run();
  }

  apply(changes: readonly ObjectChange[]): void {
    if (this.#parts.services.apply(changes)) this.#loop.within(SERVICE_MILLISECONDS);
  }

  /** Reads the ports with those of all Services, before anything is written. */
  synced(): void {
    this.#loop.run();
  }

  /** Claims the elements of an attachment, in the same batch as other claims of this turn of the event loop. */
  attached(attachment: SharingAttachment): void {
    this.#forgetGone(attachment.containerId);
    if (!this.#parts.isNeeded(attachment)) return;
    const ports = portsOf(attachment);
    const isOther =
      this.#podPorts === undefined
        ? this.#read()
        : ports.length > 0 && this.#take(this.#local, [...this.#taken.values(), ...ports]);
    this.#numbers.set(attachment.containerId, this.#numbers.get(attachment.containerId) ?? this.#freeNumber());
    if (this.#divide() || isOther) return this.#claimAll();
    this.#claim(attachment.containerId, this.#attachmentsOf(attachment.containerId));
  }

  /** Releases the share of a pod when its last attachment goes. */
  async unregister(name: AttachmentName): Promise<void> {
    const own = this.#attachmentsOf(name.containerId);
    if (own.every((other) => attachmentKey(other) === attachmentKey(name))) this.#forget(name.containerId);
  }

  problems(): readonly string[] {
    if (this.#podPorts === undefined || !this.#isCramped()) return [];
    const { first, last } = this.#local;
    return [
      this.#podPorts.isApart
        ? `pods that leave with the node's address have only ${this.#smallest()} ports each to a destination: the others are, or lie ` +
          "between, host ports of pods, ports of Services or of the node's programs, or net.ipv4.ip_local_reserved_ports; use fewer of these"
        : `net.ipv4.ip_local_port_range is ${first} ${last}, which leaves fewer than ${LEAST_PORTS} ports for pods that leave with the node's ` +
          "address: they share those of the node's programs; set a smaller range on the node",
    ];
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
  }

  #readAgain(): number {
    // The rules of the fewest shares exist from the first batch on, so the first pod only adds an element.
    if (this.#read()) {
      this.#divide();
      this.#claimAll();
    }
    return READ_MILLISECONDS;
  }

  /** @returns whether the ports for pods have changed */
  #read(): boolean {
    const { logger, ports } = this.#parts;
    try {
      const { local, taken, served = [] } = ports();
      this.#hasFailed = false;
      const before = this.#isCramped() ? [] : [...this.#taken.values()].filter((range) => !this.#served.has(range));
      // Ports that the kernel assigns to programs are excluded anyway, or pods share them with all programs.
      const programs = taken.filter(({ first, last }) => first < local.first || last > local.last);
      const hostPorts = [...this.#parts.attachments()].flatMap(portsOf);
      this.#served = new Set(served);
      // Of two equal ranges the last one counts.
      return this.#take(local, [...served, ...before, ...programs, ...hostPorts]);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (!this.#hasFailed) logger.warn("the node's ports cannot be read", { error: error.message });
      this.#hasFailed = true;
      return this.#take(this.#local, [...this.#taken.values()]);
    }
  }

  /** @param taken all ports to exclude */
  #take(local: PortRange, taken: readonly PortRange[]): boolean {
    const before = this.#podPorts;
    const own = new Map(taken.map((range) => [range.first * 0x1_0000 + range.last, range]));
    const isSame = local.first === this.#local.first && local.last === this.#local.last;
    const isKnown = own.size === this.#taken.size && [...own.keys()].every((key) => this.#taken.has(key));
    this.#taken = own;
    if (before !== undefined && isSame && isKnown) return false;
    this.#local = local;
    this.#podPorts = podPorts({ local, taken: [...own.values()] });
    const { isApart, ranges } = this.#podPorts;
    if (before?.isApart !== isApart) {
      const fields = { ports: sizeOf(ranges), localPorts: `${local.first}-${local.last}` };
      if (isApart) this.#parts.logger.info("pods leave with ports that programs of the node do not get", fields);
      else this.#parts.logger.warn("pods leave with ports that programs of the node may get, too", fields);
    }
    this.#shares = [];
    return true;
  }

  #smallest(): number {
    return this.#shares.length === 0 ? 0 : Math.min(...this.#shares.map(sizeOf));
  }

  /** Whether a share has less than half of the ports that it would have if nothing were taken, or ports of programs. */
  #isCramped(): boolean {
    const all = sizeOf(podPorts({ local: this.#local, taken: [] }).ranges);
    return this.#podPorts?.isApart === false || 2 * this.#smallest() * this.#shares.length < all;
  }

  /** @returns whether shares have changed */
  #divide(): boolean {
    const highest = Math.max(0, ...this.#numbers.values());
    const needed = shareCount(highest + 1);
    // The number of shares shrinks only when there is much room, so a single pod that comes and goes changes nothing.
    const isEnough = needed <= this.#shares.length && needed * 4 > this.#shares.length;
    if (isEnough) return false;
    this.#shares = sharesOf(this.#podPorts?.ranges ?? [], needed);
    return true;
  }

  #claimAll(): void {
    const { ruleset, attachments } = this.#parts;
    const shares = [...new Map(this.#shares.map((share) => [share[0].first, share])).values()];
    ruleset.provide("port shares", { table: INET_TABLE, sets: [], chains: shares.map(shareChain) }, "urgent");
    ruleset.claim("port shares", shares.map(shareElement), "urgent");
    for (const [containerId, own] of Map.groupBy(attachments(), (one) => one.containerId)) {
      this.#claim(containerId, own);
    }
  }

  /** @param own the attachments of one sandbox */
  #claim(containerId: string, own: readonly SharingAttachment[]): void {
    const number = this.#numbers.get(containerId);
    const share = number === undefined ? undefined : this.#shares[number % Math.max(1, this.#shares.length)];
    const claims = own.flatMap(({ addresses }) =>
      share === undefined ? [] : addresses.map(({ address }) => podShareElement(address, share)),
    );
    this.#parts.ruleset.claim(`ports of ${containerId}`, claims, "urgent");
  }

  /** @param staying the container ID of a present pod, whether or not the list has it */
  #forgetGone(staying: string): void {
    const present = new Set([...this.#parts.attachments()].map(({ containerId }) => containerId));
    for (const containerId of this.#numbers.keys()) {
      if (!present.has(containerId) && containerId !== staying) this.#forget(containerId);
    }
  }

  #attachmentsOf(containerId: string): readonly SharingAttachment[] {
    return [...this.#parts.attachments()].filter((other) => other.containerId === containerId);
  }

  #forget(containerId: string): void {
    if (this.#numbers.delete(containerId)) this.#parts.ruleset.claim(`ports of ${containerId}`, [], "urgent");
  }

  /** Returns the first of the least used numbers. */
  #freeNumber(): number {
    const uses = Array.from({ length: MOST_SHARES }, () => 0);
    for (const number of this.#numbers.values()) uses[number] = (uses[number] ?? 0) + 1;
    return uses.indexOf(Math.min(...uses));
  }
}

function portsOf({ portMappings }: SharingAttachment): readonly PortRange[] {
  return portMappings.map(({ hostPort }) => ({ first: hostPort, last: hostPort }));
}

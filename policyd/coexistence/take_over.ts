import { DrawbridgeError } from "../../kernel/error.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { linkIdentity } from "../../kernel/route/link.ts";
import { Notification } from "../../kernel/route/notification.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import { nodeNamed, type NoticeSink } from "../events/notice.ts";
import type { Condition } from "../component.ts";
import type { Logger } from "../log/logger.ts";
import { problemLine } from "../problems/problem.ts";
import { isPodsLink, portWords } from "./foreign_ports.ts";

/** Milliseconds between two checks while the bridge is refused. */
const REFUSED_PERIOD = 1000;
/** The same while it is ours, when foreign ports are only reported, and after a notification about a link of others. */
const REPORT_PERIOD = 600_000;
const SETTLE_MILLISECONDS = 100;

/** The state of the bridge. */
export interface BridgeSight {
  /** The names of ports that do not belong to our pods. */
  readonly foreignPorts: readonly string[];
  /** Whether our rules for this bridge are in the kernel, or were since this boot. */
  readonly isOurs: boolean;
}

export interface TakeOverParts {
  readonly bridge: string;
  readonly nodeName: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly events: NoticeSink;
  /** @throws DrawbridgeError when the kernel does not answer */
  readonly look: () => BridgeSight;
}

/**
 * Keeps the daemon from taking over a bridge that has pods of another plugin (FOREIGN-02).
 *
 * An unknown pod on the bridge passes nothing (POL-09), so the first rules would cut such pods off from everything,
 * including their own node. Until these ports are gone no rule is written, no pod is registered and the plugin is not
 * installed. If our rules cover the bridge, or did since this boot, the node continues: foreign ports are then only
 * reported.
 */
export class TakeOver {
  readonly #parts: TakeOverParts;
  #problem: string | undefined;
  #isGranted = false;
  #isAsked = false;
  #isSoon = false;
  #cancel: Cancel = () => {};
  #isStopped = false;

  constructor(parts: TakeOverParts) {
    this.#parts = parts;
  }

  /** Resolves when rules may be written; never after {@link stop}. */
  granted(): Promise<void> {
    return new Promise((settle) => this.#ask(settle));
  }

  /** Why no rule is written; undefined when rules may be written. */
  get refusal(): string | undefined {
    return this.#isGranted ? undefined : this.#problem;
  }

  /**
   * Whether the bridge must not be changed: it has foreign ports and is not ours (FOREIGN-02). A record of one of our
   * pods does not make it ours, since an ADD that waits for the daemon has one.
   */
  get isForbidden(): boolean {
    if (this.#isGranted) return false;
    if (this.#isAsked) return this.#problem !== undefined;
    const sight = this.#look();
    return sight === undefined || !mayBeTaken(sight);
  }

  /** Part of the daemon's readiness. */
  get condition(): Condition {
    return { name: "bridge", missing: () => this.refusal };
  }

  /** Returns the current problem, for the status. */
  problems(): readonly string[] {
    return this.#problem === undefined ? [] : [problemLine("former-plugin", this.#problem)];
  }

  /** Looks again soon after a change of a link that is not a pod's. @throws DrawbridgeError ERR_NETLINK_MALFORMED */
  take(message: ReceivedMessage): void {
    if (!this.#isGranted || this.#isSoon || this.#isStopped) return;
    if (message.type !== Notification.NEWLINK && message.type !== Notification.DELLINK) return;
    if (isPodsLink(linkIdentity(message).name)) return;
    this.#isSoon = true;
    this.#cancel();
    this.#cancel = this.#parts.clock.after(SETTLE_MILLISECONDS, () => this.#lookAgain());
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel();
  }

  #ask(settle: () => void): void {
    const { clock, logger } = this.#parts;
    if (this.#isStopped) return;
    this.#isAsked = true;
    const sight = this.#look();
    if (sight === undefined || !mayBeTaken(sight)) {
      if (sight !== undefined) this.#report(refusalOf(this.#parts.bridge, sight.foreignPorts));
      this.#cancel = clock.after(REFUSED_PERIOD, () => this.#ask(settle));
      return;
    }
    const wasRefused = this.#problem !== undefined;
    this.#isGranted = true;
    this.#tellOfPorts(sight.foreignPorts);
    if (wasRefused) logger.info("the bridge is taken over: no port of others is left on it");
    this.#cancel = clock.after(REPORT_PERIOD, () => this.#lookAgain());
    settle();
  }

  #lookAgain(): void {
    this.#isSoon = false;
    const sight = this.#look();
    if (sight !== undefined) this.#tellOfPorts(sight.foreignPorts);
    this.#cancel = this.#parts.clock.after(REPORT_PERIOD, () => this.#lookAgain());
  }

  #tellOfPorts(ports: readonly string[]): void {
    if (ports.length === 0) this.#problem = undefined;
    else this.#report(reportOf(this.#parts.bridge, ports));
  }

  /** @returns undefined when the kernel does not answer: the state is unknown then, and nothing is taken over */
  #look(): BridgeSight | undefined {
    try {
      return this.#parts.look();
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (!this.#isGranted)
        this.#report(`the ports of ${JSON.stringify(this.#parts.bridge)} cannot be read: ${error.message}`);
      return undefined;
    }
  }

  #report(problem: string): void {
    if (problem === this.#problem) return;
    const { logger, events, nodeName } = this.#parts;
    this.#problem = problem;
    logger.warn("ports of others on the bridge", { reason: problem });
    events.tell({ regarding: nodeNamed(nodeName), reason: "InstallationProblem", note: problem });
  }
}

function mayBeTaken({ foreignPorts, isOurs }: BridgeSight): boolean {
  return foreignPorts.length === 0 || isOurs;
}

function refusalOf(bridge: string, ports: readonly string[]): string {
  return (
    `${JSON.stringify(bridge)} has ${portWords(ports)}, which our rules would cut off: no rule is written and no pod is ` +
    "attached until they are gone; name another bridge, such as the default drawbridge0, in policyd's bridge, or delete the pods " +
    `that another plugin has attached there; a port of no pod is taken off the bridge by ip link set ${ports[0] ?? "PORT"} nomaster`
  );
}

function reportOf(bridge: string, ports: readonly string[]): string {
  return `${JSON.stringify(bridge)} has ${portWords(ports)}, through which policies let nothing pass: take them off the bridge`;
}

import type { Machine } from "../machine.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { linkIdentity } from "../../kernel/route/link.ts";
import { Notification } from "../../kernel/route/notification.ts";
import { ControlLoop } from "../lib/control_loop.ts";
import { NodeProblems } from "../events/node_problems.ts";
import type { Condition } from "../component.ts";
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

export interface TakeOverParts extends Pick<Machine, "clock" | "logger" | "events" | "nodeName"> {
  readonly bridge: string;
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
  readonly #problems: NodeProblems;
  #isGranted = false;
  #isAsked = false;
  readonly #granted = Promise.withResolvers<void>();
  readonly #loop: ControlLoop;

  constructor(parts: TakeOverParts) {
    this.#parts = parts;
    this.#problems = new NodeProblems(parts, "InstallationProblem", "ports of others on the bridge");
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#pass() });
  }

  /** Resolves when rules may be written; never after {@link stop}. */
  granted(): Promise<void> {
    this.#isAsked = true;
    this.#loop.run();
    return this.#granted.promise;
  }

  /** Why no rule is written; undefined when rules may be written. */
  get refusal(): string | undefined {
    return this.#isGranted ? undefined : this.#problems.present[0];
  }

  /**
   * Whether the bridge must not be changed: it has foreign ports and is not ours (FOREIGN-02). A record of one of our
   * pods does not make it ours, since an ADD that waits for the daemon has one.
   */
  get isForbidden(): boolean {
    if (this.#isGranted) return false;
    if (this.#isAsked) return this.#problems.present.length > 0;
    const sight = this.#look();
    return sight === undefined || !mayBeTaken(sight);
  }

  /** Part of the daemon's readiness. */
  get condition(): Condition {
    return { name: "bridge", missing: () => this.refusal };
  }

  /** Returns the current problem, for the status. */
  problems(): readonly string[] {
    return this.#problems.present.map((text) => problemLine("former-plugin", text));
  }

  /** Looks again soon after a change of a link that is not a pod's. @throws DrawbridgeError ERR_NETLINK_MALFORMED */
  take(messages: readonly ReceivedMessage[]): void {
    if (messages.some(isOfOtherLink)) this.lookAgain();
  }

  /** Looks again soon, also after notifications were lost. */
  lookAgain(): void {
    if (this.#isGranted) this.#loop.within(SETTLE_MILLISECONDS);
  }

  stop(): void {
    void this.#loop.stop();
  }

  #pass(): number {
    const { bridge, logger } = this.#parts;
    const sight = this.#look();
    if (!this.#isGranted && (sight === undefined || !mayBeTaken(sight))) {
      if (sight !== undefined) this.#problems.set([refusalOf(bridge, sight.foreignPorts)]);
      return REFUSED_PERIOD;
    }
    const wasRefused = !this.#isGranted && this.#problems.present.length > 0;
    this.#isGranted = true;
    const ports = sight?.foreignPorts;
    if (ports !== undefined) this.#problems.set(ports.length === 0 ? [] : [reportOf(bridge, ports)]);
    if (wasRefused) logger.info("the bridge is taken over: no port of others is left on it");
    this.#granted.resolve();
    return REPORT_PERIOD;
  }

  /** @returns undefined when the kernel does not answer: the state is unknown then, and nothing is taken over */
  #look(): BridgeSight | undefined {
    try {
      return this.#parts.look();
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (!this.#isGranted)
        this.#problems.set([`the ports of ${JSON.stringify(this.#parts.bridge)} cannot be read: ${error.message}`]);
      return undefined;
    }
  }
}

function isOfOtherLink(message: ReceivedMessage): boolean {
  const isChange = message.type === Notification.NEWLINK || message.type === Notification.DELLINK;
  return isChange && !isPodsLink(linkIdentity(message).name);
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

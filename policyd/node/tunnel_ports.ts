import type { Machine } from "../machine.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import { dumpLinks } from "../../kernel/route/link.ts";
import { withRouteSocket } from "../../kernel/route/socket.ts";
import { tunnelPortOf } from "../../kernel/route/vxlan.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { Lifecycle } from "../component.ts";
import { ControlLoop, type NextPass } from "../lib/control_loop.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import { tunnelPortElements } from "./tables/other_tunnels.ts";

const RETRY_MILLISECONDS = 1000;

export interface TunnelPortsParts extends Pick<Machine, "clock" | "logger"> {
  readonly ruleset: Pick<Ruleset, "claim">;
  /** Returns RTM_NEWLINK messages about all links. @throws DrawbridgeError when the kernel refuses */
  readonly links: () => readonly ReceivedMessage[];
}

/** Claims the UDP ports of the node's tunnels as links come and go (GUARD-17). */
export class TunnelPorts implements Lifecycle {
  readonly #parts: TunnelPortsParts;
  readonly #loop: ControlLoop;
  #hasFailed = false;

  constructor(parts: TunnelPortsParts) {
    this.#parts = parts;
    this.#loop = new ControlLoop({ clock: parts.clock, pass: () => this.#pass() });
  }

  begin(): void {
    this.lookAgain();
  }

  /** Looks again where one of the messages about links is about a tunnel. @throws DrawbridgeError as {@link tunnelPortOf} */
  take(messages: readonly ReceivedMessage[]): void {
    if (messages.some((message) => tunnelPortOf(message) !== undefined)) this.lookAgain();
  }

  /** Claims the ports of the present tunnels: at the start, and after notifications were lost. */
  lookAgain(): void {
    this.#loop.run();
  }

  async stop(): Promise<void> {
    await this.#loop.stop();
  }

  #pass(): NextPass {
    const { ruleset, logger, links } = this.#parts;
    try {
      const ports = links().flatMap((message) => tunnelPortOf(message) ?? []);
      ruleset.claim("ports of tunnels", tunnelPortElements([...new Set(ports)]), "urgent");
      this.#hasFailed = false;
      return undefined;
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      if (!this.#hasFailed)
        logger.error("the ports of tunnels are not read; it is tried again", { error: error.message });
      this.#hasFailed = true;
      return RETRY_MILLISECONDS;
    }
  }
}

/** Returns the component for the links of this thread's network namespace. */
export function openTunnelPorts(syscalls: Syscalls, parts: Omit<TunnelPortsParts, "links">): TunnelPorts {
  const links = (): readonly ReceivedMessage[] => withRouteSocket(syscalls, (socket) => socket.dump(dumpLinks()));
  return new TunnelPorts({ ...parts, links });
}

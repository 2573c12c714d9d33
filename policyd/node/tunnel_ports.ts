import { DrawbridgeError } from "../../kernel/error.ts";
import type { ReceivedMessage } from "../../kernel/netlink/message.ts";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { dumpLinks } from "../../kernel/route/link.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import { tunnelPortOf } from "../../kernel/route/tunnel_port.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { Lifecycle } from "../component.ts";
import type { Clock } from "../lib/clock.ts";
import { RenewedSubscription } from "../lib/renewed_subscription.ts";
import type { Logger } from "../log/logger.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import { tunnelPortElements } from "./tables/other_tunnels.ts";

const SUBSCRIPTION_RETRY = 5000;

export interface TunnelPortsParts {
  readonly ruleset: Pick<Ruleset, "claim">;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Returns RTM_NEWLINK messages about all links. @throws DrawbridgeError when the kernel refuses */
  readonly links: () => readonly ReceivedMessage[];
}

/** Claims the UDP ports of the node's tunnels as links come and go (GUARD-17). The ruleset's owner starts and stops it. */
export class TunnelPorts implements Lifecycle {
  readonly #parts: TunnelPortsParts;
  readonly #subscription: RenewedSubscription;

  constructor(parts: TunnelPortsParts) {
    this.#parts = parts;
    const { clock, logger } = parts;
    this.#subscription = new RenewedSubscription({
      clock,
      source: { kind: "route", groups: ["link"] },
      listener: {
        onMessages: (messages) => {
          if (messages.some((message) => tunnelPortOf(message) !== undefined)) this.#look();
        },
        onOverrun: () => this.#look(),
      },
      retryMilliseconds: SUBSCRIPTION_RETRY,
      onRefused: (error) => logger.error("the kernel does not report changes of links; policyd retries", { error }),
      onOpen: () => this.#look(),
    });
  }

  begin(): void {
    this.#look();
  }

  /** Subscribes to changes of links. */
  async start(events: KernelNotifications): Promise<void> {
    await this.#subscription.start(events);
  }

  async stop(): Promise<void> {
    this.#subscription.stop();
  }

  #look(): void {
    const { ruleset, logger, links } = this.#parts;
    try {
      const ports = links().flatMap((message) => tunnelPortOf(message) ?? []);
      ruleset.claim("ports of tunnels", tunnelPortElements([...new Set(ports)]), "urgent");
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      logger.error("the ports of tunnels are not read; the next change of a link reads them", { error: error.message });
    }
  }
}

/** Returns the component for the links of this thread's network namespace. */
export function openTunnelPorts(
  syscalls: Syscalls,
  parts: Pick<TunnelPortsParts, "ruleset" | "clock" | "logger">,
): TunnelPorts {
  const links = (): readonly ReceivedMessage[] => {
    const socket = openRouteSocket(syscalls);
    try {
      return [...socket.dump(dumpLinks())];
    } finally {
      socket.close();
    }
  };
  return new TunnelPorts({ ...parts, links });
}

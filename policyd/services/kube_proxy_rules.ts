import { DrawbridgeError } from "../../kernel/error.ts";
import { NETLINK_NETFILTER } from "../../kernel/netlink/netfilter_message.ts";
import { NetlinkSocket } from "../../kernel/netlink/socket.ts";
import { isInRuleset, type RulesetPlace } from "../../kernel/nftables/decode/in_ruleset.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { Cancel, Clock } from "../lib/clock.ts";
import type { Logger } from "../log/logger.ts";
import type { ServiceFollower } from "./service_follower.ts";

/** Where kube-proxy has its rules: in nftables mode, and by iptables-nft in its iptables and IPVS modes (pkg/proxy). */
const PLACES: readonly RulesetPlace[] = (["ip", "ip6"] as const).flatMap((family) => [
  { family, name: "kube-proxy" },
  { family, name: "nat", chain: "KUBE-SERVICES" },
]);

const WAY_OUT =
  "they translate packets to Services, too, also to endpoints that are long gone: delete the DaemonSet kube-proxy and run " +
  "kube-proxy --cleanup on the node (docs/guides/remove-kube-proxy.md), or keep it and set services: false";

export interface KubeProxyRulesParts {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Milliseconds between two checks. */
  readonly period: number;
  readonly isPresent: (place: RulesetPlace) => boolean;
}

/** Reports rules of kube-proxy beside ours, once ours are in force. It does not see those of iptables-legacy. */
export class KubeProxyRules implements ServiceFollower {
  readonly #parts: KubeProxyRulesParts;
  #problem: string | undefined;
  #cancel: Cancel | undefined;
  #isStopped = false;

  constructor(parts: KubeProxyRulesParts) {
    this.#parts = parts;
  }

  nodeChanged(): void {}

  rulesInForce(): void {
    if (this.#cancel === undefined && !this.#isStopped) this.#look();
  }

  problems(): readonly string[] {
    return this.#problem === undefined ? [] : [this.#problem];
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancel?.();
  }

  #look(): void {
    const { clock, logger, period } = this.#parts;
    const before = this.#problem;
    this.#problem = this.#found();
    if (this.#problem !== undefined && this.#problem !== before) {
      logger.warn("another program serves Services, too", { reason: this.#problem });
    }
    if (this.#problem === undefined && before !== undefined) logger.info("no rules of kube-proxy are left");
    this.#cancel = clock.after(period, () => this.#look());
  }

  #found(): string | undefined {
    try {
      const found = PLACES.filter((place) => this.#parts.isPresent(place)).map(
        ({ family, name, chain }) => `${family} ${name}${chain === undefined ? "" : ` ${chain}`}`,
      );
      return found.length === 0 ? undefined : `rules of kube-proxy are in ${found.join(", ")}: ${WAY_OUT}`;
    } catch (error) {
      // If the check fails, the last result stays valid.
      if (!(error instanceof DrawbridgeError)) throw error;
      return this.#problem;
    }
  }
}

/** Checks the network namespace of this thread. @throws SyscallError when the kernel refuses a socket */
export function kernelKubeProxyRules(
  syscalls: Syscalls,
  parts: Omit<KubeProxyRulesParts, "isPresent">,
): KubeProxyRules {
  const socket = new NetlinkSocket(syscalls, NETLINK_NETFILTER);
  return new KubeProxyRules({ ...parts, isPresent: (place) => isInRuleset(socket, place) });
}

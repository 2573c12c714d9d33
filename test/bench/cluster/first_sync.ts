import { setTimeout as wait } from "node:timers/promises";
import { NftablesSocket } from "../../../kernel/nftables/socket.ts";
import type { Lab } from "../../lab/lab.ts";
import type { Access } from "./control_plane.ts";
import { MemoryWatch } from "../process_usage.ts";
import { frontendsInKernel, type RunningProxy, type ServiceProxy } from "./service_proxy.ts";

const POLL_MILLISECONDS = 5;
/** Longer than the time between two batches of a first sync, for both programs. */
const QUIET_MILLISECONDS = 1500;
const LIMIT_MILLISECONDS = 300_000;
const SHOWN_OF_A_LOG = 2000;

/** A program whose desired state is completely in the kernel. */
export interface Synced {
  readonly running: RunningProxy;
  /** The watch of its memory since its start, which the caller disposes of. */
  readonly watch: MemoryWatch;
  /** Milliseconds from the start of its process until the last commit of its first sync. */
  readonly milliseconds: number;
}

/**
 * Starts a program on a node without rules and waits until the kernel has every Service.
 *
 * The number of the ruleset's generation shows each commit. It is read every 5 ms, which costs the measured program
 * nothing, unlike a listener to the commits.
 *
 * @throws Error with the end of the program's log when the kernel never has every Service
 */
export async function firstSync(lab: Lab, proxy: ServiceProxy, access: Access, services: number): Promise<Synced> {
  const nftables = proxy.node.inside(() => new NftablesSocket(lab.calls));
  try {
    const begun = performance.now();
    let generation = nftables.generation();
    const running = proxy.start(access);
    const watch = new MemoryWatch(running.pid);
    let committed = begun;
    let isSeen = true;
    for (;;) {
      await wait(POLL_MILLISECONDS);
      const now = performance.now();
      const current = nftables.generation();
      if (current !== generation) {
        generation = current;
        committed = now;
        isSeen = false;
      } else if (!isSeen && now - committed > QUIET_MILLISECONDS) {
        if (frontendsInKernel(proxy) >= services) return { running, watch, milliseconds: committed - begun };
        isSeen = true;
      }
      if (now - begun > LIMIT_MILLISECONDS) {
        throw new Error(`${proxy.name} has not synced:\n${running.log().slice(-SHOWN_OF_A_LOG)}`);
      }
    }
  } finally {
    nftables.close();
  }
}

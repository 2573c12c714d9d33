import { netlinkNodeState } from "../../cni/node_state/netlink_kernel.ts";
import type { StepMachine } from "../../cni/node_state/carry_out.ts";
import { type OriginalSettingsPlace, rememberingSysctl } from "../../attachment/original_settings.ts";
import { openRouteSocket } from "../../kernel/route/socket.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import { procSysctl } from "../../kernel/sysctl.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import type { Clock } from "../lib/clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import { type LinkFollower, NodeStateReconciler } from "./node_state_reconciler.ts";
import { NodeStateReport } from "./report.ts";

/** The parts of the machine that {@link openNodeState} needs. */
export interface NodeStateMachine {
  readonly syscalls: StepMachine["syscalls"] & FileCalls;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly attachments: AttachmentRegistry;
  readonly clusterEvents: NoticeSink;
  /** Where the original values of settings are stored. */
  readonly originals: OriginalSettingsPlace;
  /** Returns the links of the node's default routes. */
  readonly uplinks: () => readonly string[];
  /** Whether a bridge must not be changed now. */
  readonly isForbidden: (bridge: string) => boolean;
  /** These receive the messages about links. */
  readonly links: readonly LinkFollower[];
}

/**
 * Opens the node state of this thread's network namespace. Nothing is checked before the component starts.
 *
 * @throws SyscallError when the kernel refuses a socket
 */
export function openNodeState(
  { nodeName, stateDirectory, syncPeriod }: Configuration,
  machine: NodeStateMachine,
): { readonly reconciler: NodeStateReconciler; readonly report: NodeStateReport } {
  const { syscalls, clock, logger, attachments, clusterEvents, originals, uplinks, isForbidden, links } = machine;
  const settings = procSysctl(syscalls);
  const sysctl = rememberingSysctl(settings, originals);
  const report = new NodeStateReport({ logger, events: clusterEvents, nodeName });
  const reconciler = new NodeStateReconciler({
    kernel: netlinkNodeState({ syscalls, socket: openRouteSocket(syscalls), sysctl, runDir: stateDirectory }),
    sysctl: settings,
    clock,
    report,
    attachments,
    uplinks,
    isForbidden,
    syncPeriod,
    links,
  });
  return { reconciler, report };
}

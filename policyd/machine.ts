import type { OriginalSettingsPlace } from "../attachment/original_settings.ts";
import type { StoreFileSystem } from "../ipam/file_system.ts";
import type { ConntrackSockets } from "../kernel/conntrack/sockets.ts";
import type { Nftables } from "../kernel/nftables/socket.ts";
import type { nodeSyscalls } from "../kernel/syscall/koffi.ts";
import type { NodeJudge } from "../objects/nodes/node_judge.ts";
import type { AttachmentRegistry } from "./attachments/registry.ts";
import type { NoticeSink } from "./events/notice.ts";
import type { Clock } from "./lib/clock.ts";
import type { Logger } from "./log/logger.ts";
import type { Ruleset } from "./ruleset/ruleset.ts";

/** The machine that the daemon runs on, and what its parts share. A part asks for the members that it needs. */
export interface Machine {
  readonly syscalls: ReturnType<typeof nodeSyscalls>;
  readonly files: StoreFileSystem;
  /** The kernel's tables, which only the ruleset writes, except for those beside it. */
  readonly kernel: Nftables;
  readonly conntrack: ConntrackSockets;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Where the original values of settings are stored. */
  readonly originals: OriginalSettingsPlace;
  readonly events: NoticeSink;
  readonly nodeName: string;
  /** The pods of this node: those that were attached before this daemon started, and those that register. */
  readonly attachments: AttachmentRegistry;
  readonly judge: NodeJudge;
  /** Its owner starts and stops it. */
  readonly ruleset: Ruleset;
}

import type { Table } from "../../kernel/nftables/model/object.ts";
import type { Nftables } from "../../kernel/nftables/socket.ts";
import type { FileCalls } from "../../kernel/syscall/file_calls.ts";
import type { Syscalls } from "../../kernel/syscall/syscalls.ts";
import type { AttachmentRegistry } from "../attachments/registry.ts";
import type { Clock } from "../lib/clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { namesVersion } from "../ruleset/schema.ts";
import type { NoticeSink } from "../events/notice.ts";
import type { Logger } from "../log/logger.ts";
import { CLOSING_TABLE } from "../policies/closing/closing_tables.ts";
import { POLICY_TABLE } from "../policies/compile/policy_table.ts";
import { NeighbouringPods } from "./neighbouring_pods.ts";
import { BesideKernel } from "./beside_kernel.ts";
import { foreignPorts } from "./foreign_ports.ts";
import { TakeOver } from "./take_over.ts";

/** The parts of the machine that {@link openCoexistence} needs. */
export interface CoexistenceMachine {
  readonly syscalls: Syscalls & FileCalls;
  readonly kernel: Pick<Nftables, "chains" | "head">;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly attachments: AttachmentRegistry;
  readonly clusterEvents: NoticeSink;
  /** Whether a daemon has enforced policies since this boot. @throws DrawbridgeError when that cannot be read */
  readonly wasEnforced: () => boolean;
}

/** The parts that protect pods of another plugin. */
export interface Coexistence {
  readonly beside: NeighbouringPods;
  /** Undefined without policies: no rule of ours then drops packets from a foreign port. */
  readonly takeOver: TakeOver | undefined;
}

/**
 * Opens the links of this thread's network namespace.
 *
 * @param tables the desired tables of policyd
 * @throws SyscallError when the kernel refuses a socket
 */
export function openCoexistence(
  { bridge, nodeName, policies, syncPeriod }: Pick<Configuration, "bridge" | "nodeName" | "policies" | "syncPeriod">,
  { syscalls, kernel: nftables, clock, logger, attachments, clusterEvents: events, wasEnforced }: CoexistenceMachine,
  tables: readonly Table[],
): Coexistence {
  const kernel = new BesideKernel(syscalls, bridge);
  const beside = new NeighbouringPods({ kernel, bridge, attachments, clock, logger, syncPeriod });
  if (!policies) return { beside, takeOver: undefined };
  const version = versionOf(
    tables.find(({ name, family }) => name === POLICY_TABLE.name && family === POLICY_TABLE.family),
  );
  const look = (): { readonly foreignPorts: readonly string[]; readonly isOurs: boolean } => {
    const ports = foreignPorts(kernel.links(), bridge, attachments.values());
    return { foreignPorts: ports, isOurs: ports.length > 0 && isOurs() };
  };
  /** Returns whether the bridge was ours: it is closed until policies are read, or rules of this version name it. */
  const isOurs = (): boolean => {
    if (nftables.head(CLOSING_TABLE) !== undefined) return true;
    const chains = nftables.chains(POLICY_TABLE);
    if (version !== undefined && chains.some(({ name }) => name === version)) return true;
    // The tables may have been lost. Records prove nothing: a refused ADD has one, and a port on the bridge, while it
    // waits.
    return wasEnforced();
  };
  return { beside, takeOver: new TakeOver({ bridge, nodeName, clock, logger, events, look }) };
}

function versionOf(table: Table | undefined): string | undefined {
  return table?.chains.find(namesVersion)?.name;
}

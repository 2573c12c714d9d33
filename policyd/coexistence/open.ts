import type { Table } from "../../kernel/nftables/model/object.ts";
import { rememberingSysctl } from "../../attachment/original_settings.ts";
import { procSysctl } from "../../kernel/sysctl.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { namesVersion } from "../ruleset/schema.ts";
import { CLOSING_TABLE } from "../policies/closing/closing_tables.ts";
import { POLICY_TABLE } from "../policies/compile/policy_table.ts";
import { NeighbouringPods } from "./neighbouring_pods.ts";
import { BesideKernel } from "./beside_kernel.ts";
import { foreignPorts } from "./foreign_ports.ts";
import { TakeOver } from "./take_over.ts";

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
 * @param wasEnforced returns whether a daemon has enforced policies since this boot; throws where that cannot be read
 * @throws SyscallError when the kernel refuses a socket
 */
export function openCoexistence(
  { bridge, policies, syncPeriod }: Pick<Configuration, "bridge" | "policies" | "syncPeriod">,
  machine: Machine,
  tables: readonly Table[],
  wasEnforced: () => boolean,
): Coexistence {
  const { kernel: nftables, attachments } = machine;
  const sysctl = rememberingSysctl(procSysctl(machine.syscalls), machine.originals);
  const kernel = new BesideKernel(machine.syscalls, sysctl, bridge);
  const beside = new NeighbouringPods({ ...machine, kernel, bridge, syncPeriod });
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
  return { beside, takeOver: new TakeOver({ ...machine, bridge, look }) };
}

function versionOf(table: Table | undefined): string | undefined {
  return table?.chains.find(namesVersion)?.name;
}

import type { Address } from "../../kernel/ip/address.ts";
import { giveBack, type OriginalSettingsPlace, rememberingSysctl } from "../../attachment/original_settings.ts";
import { walkInSlices } from "../../kernel/conntrack/sliced_walk.ts";
import { ConntrackSockets } from "../../kernel/conntrack/sockets.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { readTextFile } from "../../kernel/file.ts";
import type { nodeSyscalls } from "../../kernel/syscall/koffi.ts";
import { procSysctl } from "../../kernel/sysctl.ts";
import type { Clock } from "../lib/clock.ts";
import type { Configuration } from "../configuration/configuration.ts";
import type { Ruleset } from "../ruleset/ruleset.ts";
import type { Logger } from "../log/logger.ts";
import { type AddressHolder, type DomainNameOf, FlowEndNames } from "./flow_end_names.ts";
import { FlowLedger } from "./flow_ledger.ts";
import { Ledger } from "./ledger.ts";

/** The parts of the machine that {@link openFlowLedger} needs. */
export interface FlowLedgerMachine {
  readonly syscalls: ReturnType<typeof nodeSyscalls>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly originals: OriginalSettingsPlace;
}

/** Makes connections count their packets and bytes. */
const ACCOUNTING = "net/netfilter/nf_conntrack_acct";

/** Returns the ledger of this node's flows, which counts from its start; undefined where it is not configured. */
export function openFlowLedger(
  { flowLedger, flowLedgerDirectory, nodeName }: Pick<Configuration, "flowLedger" | "flowLedgerDirectory" | "nodeName">,
  ends: {
    readonly holderOf: (address: Address) => AddressHolder | undefined;
    readonly domainNameOf: DomainNameOf;
  },
  machine: FlowLedgerMachine,
  ruleset: Pick<Ruleset, "committed">,
): FlowLedger | undefined {
  setAccounting(flowLedger, machine, ruleset);
  if (!flowLedger) return undefined;
  const { syscalls, clock, logger, originals } = machine;
  const sockets = new ConntrackSockets(syscalls);
  return new FlowLedger({
    ledger: new Ledger(),
    ends: new FlowEndNames(nodeName, ends.holderOf, ends.domainNameOf),
    place: {
      directory: flowLedgerDirectory,
      files: originals.files,
      read: (path, limit) => readTextFile(syscalls, path, limit),
    },
    visitTable: (see) => sockets.with((socket) => walkInSlices(socket, {}, { see }, sockets.calls)),
    clock,
    logger,
  });
}

/** Sets accounting once rules are in force, as nf_conntrack is loaded then; if off, undoes an earlier daemon's. */
function setAccounting(isOn: boolean, machine: FlowLedgerMachine, ruleset: Pick<Ruleset, "committed">): void {
  const { syscalls, clock, logger, originals } = machine;
  const sysctl = procSysctl(syscalls);
  const set = (): void => {
    try {
      if (isOn) rememberingSysctl(sysctl, originals).write(ACCOUNTING, "1");
      else giveBack(sysctl, originals, ACCOUNTING);
    } catch (error) {
      if (!(error instanceof DrawbridgeError)) throw error;
      logger.warn("the bytes of flows are not counted as configured", { reason: error.message });
    }
  };
  let isDone = false;
  ruleset.committed.subscribe(() => {
    if (!isDone) clock.after(0, set);
    isDone = true;
  });
}

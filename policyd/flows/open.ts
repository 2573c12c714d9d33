import type { Address } from "../../kernel/ip/address.ts";
import { giveBack, rememberingSysctl } from "../../attachment/original_settings.ts";
import { walkInSlices } from "../../kernel/conntrack/sliced_walk.ts";
import { problemOf } from "../../kernel/error.ts";
import { readTextFile } from "../../kernel/file.ts";
import { procSysctl } from "../../kernel/sysctl.ts";
import type { Machine } from "../machine.ts";
import type { Configuration } from "../configuration/configuration.ts";
import { type AddressHolder, type DomainNameOf, FlowEndNames } from "./flow_end_names.ts";
import { FlowLedger } from "./flow_ledger.ts";
import { Ledger } from "./ledger.ts";

/** Makes connections count their packets and bytes. */
const ACCOUNTING = "net/netfilter/nf_conntrack_acct";

/** Returns the ledger of this node's flows, which counts from its start; undefined where it is not configured. */
export function openFlowLedger(
  { flowLedger, flowLedgerDirectory }: Pick<Configuration, "flowLedger" | "flowLedgerDirectory">,
  ends: {
    readonly holderOf: (address: Address) => AddressHolder | undefined;
    readonly domainNameOf: DomainNameOf;
  },
  machine: Machine,
): FlowLedger | undefined {
  setAccounting(flowLedger, machine);
  if (!flowLedger) return undefined;
  const { syscalls, conntrack, originals, nodeName } = machine;
  return new FlowLedger({
    ...machine,
    ledger: new Ledger(),
    ends: new FlowEndNames(nodeName, ends.holderOf, ends.domainNameOf),
    place: {
      directory: flowLedgerDirectory,
      files: originals.files,
      read: (path, limit) => readTextFile(syscalls, path, limit),
    },
    visitTable: (see) => conntrack.with((socket) => walkInSlices(socket, {}, { see }, conntrack.calls)),
  });
}

/** Sets accounting once rules are in force, as nf_conntrack is loaded then; if off, undoes an earlier daemon's. */
function setAccounting(isOn: boolean, { syscalls, clock, logger, originals, ruleset }: Machine): void {
  const sysctl = procSysctl(syscalls);
  const set = (): void => {
    const reason = problemOf(() =>
      isOn ? rememberingSysctl(sysctl, originals).write(ACCOUNTING, "1") : giveBack(sysctl, originals, ACCOUNTING),
    );
    if (reason !== undefined) logger.warn("the bytes of flows are not counted as configured", { reason });
  };
  let isDone = false;
  ruleset.committed.subscribe(() => {
    if (!isDone) clock.after(0, set);
    isDone = true;
  });
}

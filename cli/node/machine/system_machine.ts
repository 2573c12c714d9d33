import { withSocket } from "../../../kernel/netlink/socket.ts";
import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import { openConntrackSocket, visitEntries } from "../../../kernel/conntrack/table.ts";
import type { NodeMachine } from "./machine.ts";
import { readFacts } from "./read_facts.ts";
import { readFlows, readPolicies } from "./ask_daemon.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import type { ProbeCalls } from "./probe/tracer.ts";
import { attemptLater, runProbe } from "./probe/run_probe.ts";
import { readAuditFacts } from "./read_audit.ts";
import { repairLeak } from "./repair_leak.ts";
import { readInventory, readPods } from "./read_inventory.ts";
import { remove } from "./remove.ts";
import { enterNamespace, openNamespace } from "../../../kernel/network_namespace.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";

/** Returns the machine as the calling thread sees it, in the thread's namespace at the time of each call. */
export function systemMachine(syscalls: ProbeCalls): NodeMachine {
  return {
    readFacts: (place, expected) => readFacts(syscalls, place, expected),
    probe: ({ reservations, ...facts }) =>
      "unseen" in reservations
        ? Promise.resolve(reservations)
        : attemptLater(() => runProbe(syscalls, { reservations, ...facts })),
    readInventory: (place) => readInventory(syscalls, place),
    readPods: (place) => readPods(syscalls, place),
    visitConnections: (visit) => visitConnections(syscalls, visit),
    readFlows: (place) => readFlows(syscalls, place),
    readPolicies: (socket) => readPolicies(syscalls, socket),
    readAuditFacts: (place) => readAuditFacts(syscalls, place),
    repair: (place, repair) => repairLeak(syscalls, place, repair),
    remove: (removal) => remove(syscalls, removal),
  };
}

function visitConnections(syscalls: MachineCalls, visit: (entry: ConntrackEntry) => void): void {
  withSocket(openConntrackSocket(syscalls), (socket) => visitEntries(socket, visit));
}

/** Opens this machine; the thread stays in the named namespace. @throws SyscallError ERR_NAMESPACE */
export function openMachine(networkNamespace: string | undefined): NodeMachine {
  const syscalls = nodeSyscalls();
  if (networkNamespace !== undefined) enterNamespace(syscalls, openNamespace(syscalls, networkNamespace));
  return systemMachine(syscalls);
}

import { withSocket } from "../../../kernel/netlink/socket.ts";
import type { ConntrackEntry } from "../../../kernel/conntrack/entry.ts";
import { openConntrackSocket, visitEntries } from "../../../kernel/conntrack/table.ts";
import type { NodeMachine, FlowPlace, ReadFlows } from "./machine.ts";
import { readFacts } from "./read_facts.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import type { ProbeCalls } from "./probe/tracer.ts";
import { attemptLater, runProbe } from "./probe/run_probe.ts";
import { readAuditFacts } from "./read_audit.ts";
import { repairLeak } from "./repair_leak.ts";
import { readInventory, readPods } from "./read_inventory.ts";
import { remove } from "./remove.ts";
import { enterNamespace, openNamespace } from "../../../kernel/network_namespace.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import { askPolicyd } from "../../../attachment/policyd_client.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { DrawbridgeError, problemOf } from "../../../kernel/error.ts";
import { readTextFile } from "../../../kernel/file.ts";
import { readLedger } from "../../../policyd/flows/ledger_files.ts";
import { atOnce } from "../../../policyd/lib/sliced_work.ts";

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

/** The longest time for an answer; a ledger of the largest size is written in less than a second. */
const MILLISECONDS = 10_000;

/** Has the daemon write its ledger, and reads it; a failure to write is reported as a problem. */
function readFlows(syscalls: MachineCalls, { socket, directory }: FlowPlace): ReadFlows {
  const unwritten = problemOf(() => void askPolicyd(syscalls, socket, { type: "write flows" }, MILLISECONDS));
  const place = {
    directory,
    files: systemFileSystem(syscalls),
    read: (path: string, limit: number) => readTextFile(syscalls, path, limit),
  };
  const { rows, problems } = atOnce(readLedger(place));
  return {
    rows,
    problems: [...(unwritten === undefined ? [] : [`what was seen last may be missing: ${unwritten}`]), ...problems],
  };
}

/** A bound: a part usually holds several policies, and no cluster has enough of them for more parts. */
const MOST_PARTS = 100_000;

/**
 * Asks the daemon for the policies in force, as lines of JSON.
 *
 * @throws DrawbridgeError ERR_UNAVAILABLE, ERR_PROTOCOL
 */
function readPolicies(syscalls: MachineCalls, socket: string): string {
  let text = "";
  let after: string | undefined;
  for (let part = 0; part < MOST_PARTS; part++) {
    const request = after === undefined ? ({ type: "policies" } as const) : ({ type: "policies", after } as const);
    const reply = askPolicyd(syscalls, socket, request, MILLISECONDS);
    if (reply.type !== "policies") throw new DrawbridgeError("ERR_PROTOCOL", `policyd answered "${reply.type}"`);
    text += reply.lines;
    if (reply.next === undefined) return text;
    after = reply.next;
  }
  throw new DrawbridgeError("ERR_PROTOCOL", `policyd has more than ${MOST_PARTS} parts of policies`);
}

import { askPolicyd } from "../../../attachment/policyd_client.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { DrawbridgeError, problemOf } from "../../../kernel/error.ts";
import { readTextFile } from "../../../kernel/file.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { readLedger } from "../../../policyd/flows/ledger_files.ts";
import { atOnce } from "../../../policyd/lib/sliced_work.ts";
import type { FlowPlace, ReadFlows } from "./machine.ts";

/** The longest time for an answer; a ledger of the largest size is written in less than a second. */
const MILLISECONDS = 10_000;

/** Has the daemon write its ledger, and reads it; a failure to write is reported as a problem. */
export function readFlows(syscalls: MachineCalls, { socket, directory }: FlowPlace): ReadFlows {
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
export function readPolicies(syscalls: MachineCalls, socket: string): string {
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

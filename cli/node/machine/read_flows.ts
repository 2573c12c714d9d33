import { askPolicyd } from "../../../attachment/policyd_client.ts";
import { systemFileSystem } from "../../../ipam/file_system.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { readTextFile } from "../../../kernel/file.ts";
import type { MachineCalls } from "../../../kernel/syscall/machine_calls.ts";
import { readLedger } from "../../../policyd/flows/ledger_files.ts";
import { atOnce } from "../../../policyd/lib/sliced_work.ts";
import type { FlowPlace, ReadFlows } from "./machine.ts";

/** A ledger of the largest size is written in less than a second. */
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

function problemOf(action: () => void): string | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    return error.message;
  }
}

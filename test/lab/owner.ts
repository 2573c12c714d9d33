import { readFileSync } from "node:fs";
import process from "node:process";

/**
 * The process a lab belongs to. The ID may belong to another process by now; together with the start time it identifies
 * one process of this boot.
 */
export interface Owner {
  readonly pid: number;
  /** Clock ticks between boot and the start of the process (proc(5), stat field 22). */
  readonly startTime: string;
}

const PREFIX = "dbl";
const NAME = /^dbl-(?<pid>[1-9][0-9]*)-(?<startTime>[0-9]+)-/;

/** Returns this process. */
export function currentOwner(): Owner {
  return processAt(process.pid) ?? { pid: process.pid, startTime: "0" };
}

/** Returns the running process with an ID; undefined when there is none. */
export function processAt(pid: number): Owner | undefined {
  const startTime = startTimeOf(pid);
  return startTime === undefined ? undefined : { pid, startTime };
}

/**
 * Returns `dbl-<pid>-<start time>-<rest>`, the form of the names of all files of a lab, by which a later lab identifies
 * them.
 */
export function ownedName(owner: Owner, rest: string): string {
  return `${PREFIX}-${owner.pid}-${owner.startTime}-${rest}`;
}

/** Returns the owner in a name, or undefined when no lab made it. */
export function ownerOfName(name: string): Owner | undefined {
  const groups = NAME.exec(name)?.groups;
  const { pid, startTime } = groups ?? {};
  return pid === undefined || startTime === undefined ? undefined : { pid: Number(pid), startTime };
}

/** Whether the process still runs. A zombie has ended: it will not clean up any more. */
export function isAlive(owner: Owner): boolean {
  return startTimeOf(owner.pid) === owner.startTime;
}

function startTimeOf(pid: number): string | undefined {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    return undefined;
  }
  // The command may contain blanks and parentheses; the other fields start after the last one, with the state.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return fields[0] === "Z" || fields[0] === "X" ? undefined : fields[19];
}

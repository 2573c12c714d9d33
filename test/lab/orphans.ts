import { readFileSync, readdirSync, readlinkSync } from "node:fs";
import process from "node:process";
import { endProcesses } from "../support/leftover.ts";
import type { Owner } from "./owner.ts";
import { isAlive, ownedName, ownerOfName } from "./owner.ts";

/** The variable that names the lab's process to all that it starts, and to what these start in turn. */
const VARIABLE = "DRAWBRIDGE_LAB";

/** Has every program that this process starts from now on carry the owner's name, so that a later lab can judge it. */
export function markChildren(owner: Owner): void {
  process.env[VARIABLE] = ownedName(owner, "child");
}

/**
 * Ends the programs that labs of dead processes have started and nobody has ended: they would keep their namespaces,
 * with devices and addresses, for as long as they run.
 *
 * /proc/PID/environ holds what a program was given when it was executed (proc(5)), so the process of a lab itself is
 * never found by the mark it has set for its children. Process IDs have their meaning within one PID namespace, which is
 * why processes of others, as in a container with labs of its own, stay.
 */
export function endOrphans(): void {
  const pids = readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name));
  endProcesses(pids.map((name) => ({ pid: Number(name) })).filter(({ pid }) => isOrphan(pid)));
}

function isOrphan(pid: number): boolean {
  try {
    const mark = readFileSync(`/proc/${pid}/environ`, "latin1")
      .split("\0")
      .find((variable) => variable.startsWith(`${VARIABLE}=`));
    if (mark === undefined) return false;
    const owner = ownerOfName(mark.slice(VARIABLE.length + 1));
    return owner !== undefined && !isAlive(owner) && pidNamespaceOf(pid) === pidNamespaceOf("self");
  } catch {
    // It has ended meanwhile, or belongs to another user, whose labs this process could not clean up either.
    return false;
  }
}

function pidNamespaceOf(pid: number | "self"): string {
  return readlinkSync(`/proc/${pid}/ns/pid`);
}

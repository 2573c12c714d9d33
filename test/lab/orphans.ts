import { readFileSync, readdirSync, readlinkSync } from "node:fs";
import process from "node:process";
import { endProcesses } from "../support/leftover.ts";
import { isAlive, ownedName, type Owner, ownerOfName } from "./owner.ts";

/** The variable that names the lab's process to all programs that it starts, and to their children. */
const VARIABLE = "DRAWBRIDGE_LAB";

/**
 * Marks every program that this process starts from now on with the owner's name, by which a later lab identifies it.
 */
export function markChildren(owner: Owner): void {
  process.env[VARIABLE] = ownedName(owner, "child");
}

/**
 * Ends the programs that labs of dead processes have started and that still run: they would keep their namespaces, with
 * devices and addresses, alive.
 *
 * /proc/PID/environ contains the environment with which a program was executed (proc(5)), so the mark that a lab's
 * process sets for its children never identifies that process itself. Process IDs are valid within one PID namespace,
 * so processes of other ones, as of a container with its own labs, stay.
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
    // It has ended meanwhile, or belongs to another user, whose labs this process could not clean up anyway.
    return false;
  }
}

function pidNamespaceOf(pid: number | "self"): string {
  return readlinkSync(`/proc/${pid}/ns/pid`);
}

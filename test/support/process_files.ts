import { readdirSync, readFileSync } from "node:fs";

/** Returns the text of a file of /proc; "" when it has gone with its process. */
export function readIfThere(file: string): string {
  try {
    return readFileSync(file, "latin1");
  } catch {
    return "";
  }
}

/** Returns the threads of a process; none when it has ended. */
export function threadsOf(pid: number): readonly string[] {
  try {
    return readdirSync(`/proc/${pid}/task`);
  } catch {
    return [];
  }
}

/**
 * Returns a field of a file of /proc that is given in kilobytes, in MB; undefined when the file or the field does not
 * exist.
 */
export function megabytesIn(file: string, field: string): number | undefined {
  const kilobytes = new RegExp(`^${field}:\\s*([0-9]+) kB$`, "m").exec(readIfThere(file))?.[1];
  return kilobytes === undefined ? undefined : (Number(kilobytes) * 1024) / 1e6;
}

import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Seen } from "../doctor/facts.ts";

/** Returns the result of a read, or why the machine does not permit it. A bug is thrown. */
export function attempt<T>(see: () => T): Seen<T> {
  try {
    return { value: see() };
  } catch (error) {
    if (error instanceof DrawbridgeError) return unseenFor(error.message);
    if (error instanceof Error && "code" in error) return unseenFor(error.message);
    throw error;
  }
}

function unseenFor(reason: string): { readonly unseen: string; readonly needsRoot?: boolean } {
  const needsRoot = /EPERM|EACCES/.test(reason) && process.geteuid?.() !== 0;
  return needsRoot ? { unseen: `${reason}; run as root`, needsRoot } : { unseen: reason };
}

import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Seen } from "../doctor/facts.ts";

/** Returns the result of a read, or why the machine does not permit it. A bug is thrown. */
export function attempt<T>(see: () => T): Seen<T> {
  try {
    return { value: see() };
  } catch (error) {
    return unseenFor(error);
  }
}

/** Returns the result of {@link attempt} for a read that takes time. */
export async function attemptLater<T>(see: () => Promise<T>): Promise<Seen<T>> {
  try {
    return { value: await see() };
  } catch (error) {
    return unseenFor(error);
  }
}

function unseenFor(error: unknown): { readonly unseen: string; readonly needsRoot?: boolean } {
  const isRefusal = error instanceof DrawbridgeError || (error instanceof Error && "code" in error);
  if (!isRefusal) throw error;
  const reason = error.message;
  const needsRoot = /EPERM|EACCES/.test(reason) && process.geteuid?.() !== 0;
  return needsRoot ? { unseen: `${reason}; run as root`, needsRoot } : { unseen: reason };
}

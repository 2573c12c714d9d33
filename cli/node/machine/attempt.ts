import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Seen } from "../doctor/facts.ts";

/** What a call returns, or why the machine does not let us see it. A bug stays one. */
export function attempt<T>(see: () => T): Seen<T> {
  try {
    return { value: see() };
  } catch (error) {
    if (error instanceof DrawbridgeError) return { unseen: withWay(error.message) };
    if (error instanceof Error && "code" in error) return { unseen: withWay(error.message) };
    throw error;
  }
}

function withWay(reason: string): string {
  return /EPERM|EACCES/.test(reason) && process.geteuid?.() !== 0 ? `${reason}; run as root` : reason;
}

/** The pause before what failed for lack of descriptors, memory or buffers is tried again. */
export const EXHAUSTION_MILLISECONDS = 1000;

const NAMES: ReadonlySet<unknown> = new Set(["EMFILE", "ENFILE", "ENOMEM", "ENOBUFS"]);

/**
 * Returns whether an error, or the one that caused it, says that the process or the machine has run out of descriptors,
 * memory or buffers. That passes. The error is one of ours or of Node's.
 */
export function isExhaustion(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  const names = ["errnoName" in error && error.errnoName, "code" in error && error.code];
  return names.some((name) => NAMES.has(name)) || isExhaustion(error.cause);
}

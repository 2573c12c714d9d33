import { readTextFile } from "../file.ts";
import type { FileReadCalls } from "../syscall/file_calls.ts";
import type { ConntrackFilter } from "./filter.ts";

/** All flows of both families. */
export const EVERY_FLOW: readonly ConntrackFilter[] = [{}];

/** The number of flows in the calling thread's network namespace. */
const FLOW_COUNT = "/proc/sys/net/netfilter/nf_conntrack_count";
/** The number of flows that are read and skipped in the time that one more list takes. */
const FLOWS_PER_LIST = 1000;
/** The most lists. For each the kernel visits every flow, in a sixth of the time in which all are read. */
const MOST_LISTS = 6;

/**
 * Returns the given filters, or one for all flows where that is faster. For each list the kernel goes through all
 * buckets of the table that a machine's namespaces share, about 10 ms for 262,144 of them.
 *
 * @param flows returns the number of flows; undefined where it is not known
 */
export function cheapestLists(
  asked: readonly ConntrackFilter[],
  flows: () => number | undefined,
): readonly ConntrackFilter[] {
  if (asked.length === 0) return asked;
  const mostFlows = (asked.length + 1) * FLOWS_PER_LIST;
  const areFew = asked.length > MOST_LISTS || (flows() ?? mostFlows) < mostFlows;
  return areFew ? EVERY_FLOW : asked;
}

/** Returns the number of flows in the calling thread's network namespace; undefined where the kernel does not say. */
export function flowCount(files: FileReadCalls): number | undefined {
  const text = readTextFile(files, FLOW_COUNT, 32);
  return text === undefined ? undefined : Number(text);
}

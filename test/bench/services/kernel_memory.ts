import { readFileSync } from "node:fs";

/**
 * The fields of /proc/meminfo in which tables count: elements in slabs, their counters per processor, the buckets of
 * large hash tables in the vmalloc range. Kernel stacks and page tables are not included.
 */
const FIELDS = ["Slab", "Percpu", "VmallocUsed"] as const;

/** Returns the kernel's memory that tables may use, of the whole machine. @returns megabytes (10^6) */
export function kernelMemory(text = readFileSync("/proc/meminfo", "utf8")): number {
  const kilobytes = FIELDS.map((field) => {
    const found = new RegExp(`^${field}:\\s*(\\d+) kB$`, "m").exec(text)?.[1];
    if (found === undefined) throw new Error(`/proc/meminfo has no ${field}`);
    return Number(found);
  });
  return (kilobytes.reduce((sum, value) => sum + value, 0) * 1024) / 1e6;
}

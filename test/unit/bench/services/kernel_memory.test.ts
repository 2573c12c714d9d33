import assert from "node:assert/strict";
import { kernelMemory } from "../../../bench/services/kernel_memory.ts";

describe("the benchmark's reading of the kernel's memory", () => {
  it("kernelMemory adds up the kernel's tables in /proc/meminfo", () => {
    const text =
      "MemFree:  9 kB\nSlab:           1000 kB\nVmallocTotal: 7 kB\nVmallocUsed:     500 kB\nPercpu:   500 kB\n";
    assert.equal(kernelMemory(text), 2.048);
    assert.throws(() => kernelMemory("Slab: 1 kB\n"), /Percpu/);
  });
});

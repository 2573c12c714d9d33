import assert from "node:assert/strict";
import { kernelMemory } from "../../../bench/services/kernel_memory.ts";
import { sharesOf, worstDeviation } from "../../../bench/services/shares.ts";

describe("the benchmark of Services: evaluation", () => {
  it("the shares of endpoints are computed from their numbers", () => {
    assert.deepEqual(
      sharesOf({ modulus: 2, draws: 1, holders: ["a", "b"], rest: undefined }),
      new Map([
        ["a", 0.5],
        ["b", 0.5],
      ]),
    );
    // Half of the draws find no endpoint. After two draws a quarter is left for the endpoint that takes the rest.
    const shares = sharesOf({ modulus: 4, draws: 2, holders: ["a", "b"], rest: "a" });
    assert.deepEqual(
      shares,
      new Map([
        ["a", 0.625],
        ["b", 0.375],
      ]),
    );
    assert.equal(worstDeviation(shares), 0.25);
    assert.equal(worstDeviation(sharesOf({ modulus: 4, draws: 16, holders: ["a", "a", "b"], rest: "b" })) > 0.33, true);
  });

  it("kernelMemory adds up the kernel's tables in /proc/meminfo", () => {
    const text =
      "MemFree:  9 kB\nSlab:           1000 kB\nVmallocTotal: 7 kB\nVmallocUsed:     500 kB\nPercpu:   500 kB\n";
    assert.equal(kernelMemory(text), 2.048);
    assert.throws(() => kernelMemory("Slab: 1 kB\n"), /Percpu/);
  });
});

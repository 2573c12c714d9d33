import assert from "node:assert/strict";
import fc from "fast-check";
import { estimateRatio, median, mulberry32, quantile } from "../../bench/statistics.ts";

describe("statistics of the benchmark", () => {
  it("median: the middle value, or the mean of the two middle ones", () => {
    assert.equal(median([3, 1, 2]), 2);
    assert.equal(median([4, 1, 3, 2]), 2.5);
    assert.equal(median([10, 9, 100]), 10, "values are sorted as numbers, not as text");
    assert.throws(() => median([]), RangeError);
  });

  it("quantile: interpolates between the neighbours", () => {
    assert.equal(quantile([1, 2, 3, 4, 5], 0.5), 3);
    assert.equal(quantile([1, 2], 0.25), 1.25);
    assert.equal(quantile([7], 0.975), 7);
    assert.throws(() => quantile([], 0.5), RangeError);
  });

  it("mulberry32: the published sequence for seed 1", () => {
    const random = mulberry32(1);
    const drawn = [random(), random(), random()].map((number) => Math.floor(number * 2 ** 32));
    assert.deepEqual(drawn, [2_693_262_067, 11_749_833, 2_265_367_787]);
  });

  it("mulberry32: spreads evenly over [0, 1)", () => {
    const random = mulberry32(7);
    const counts = Array.from({ length: 10 }, () => 0);
    for (let i = 0; i < 10_000; i++) {
      const bin = Math.floor(random() * 10);
      counts[bin] = (counts[bin] ?? 0) + 1;
    }
    for (const count of counts) assert.ok(count > 850 && count < 1150, counts.join(" "));
  });

  it("the ratio is computed within a pair, not between the medians", () => {
    const pairs = [
      { ours: 1, peer: 2 },
      { ours: 20, peer: 10 },
      { ours: 5, peer: 10 },
    ];
    assert.equal(estimateRatio(pairs).ratio, 0.5);
  });

  it("equal pairs give an interval of one value, and the same pairs give the same interval", () => {
    const same = Array.from({ length: 40 }, () => ({ ours: 3, peer: 4 }));
    assert.deepEqual(estimateRatio(same), { ratio: 0.75, low: 0.75, high: 0.75 });
    const pairs = Array.from({ length: 40 }, (_, i) => ({ ours: 100 + i, peer: 200 }));
    assert.deepEqual(estimateRatio(pairs), estimateRatio(pairs));
  });

  it("the interval covers the true median in about 95 of 100 samples", () => {
    const random = mulberry32(99);
    let covered = 0;
    for (let sample = 0; sample < 200; sample++) {
      const pairs = Array.from({ length: 41 }, () => ({ ours: random(), peer: 1 }));
      const { low, high } = estimateRatio(pairs, 400, sample);
      if (low <= 0.5 && 0.5 <= high) covered++;
    }
    assert.ok(covered >= 178 && covered <= 200, `${covered} of 200`);
  });

  it("the interval contains the ratio and stays within the measured ratios", () => {
    const value = fc.double({ min: 0.1, max: 100, noNaN: true });
    const pairs = fc.array(fc.record({ ours: value, peer: value }), { minLength: 1, maxLength: 30 });
    fc.assert(
      fc.property(pairs, (measured) => {
        const ratios = measured.map(({ ours, peer }) => ours / peer);
        const { ratio, low, high } = estimateRatio(measured, 200);
        assert.ok(Math.min(...ratios) <= low && low <= ratio && ratio <= high && high <= Math.max(...ratios));
      }),
    );
  });
});

import assert from "node:assert/strict";
import * as fc from "fast-check";
import { RangeIndex } from "../../../../policyd/lib/range_index.ts";

const range = fc.tuple(fc.nat(60), fc.nat(60)).map(([first, size]) => ({ first, last: first + size }));

function found(index: RangeIndex<number, number>, key: number): readonly number[] {
  const values: number[] = [];
  index.visit(key, (value) => void values.push(value));
  return values.sort((a, b) => a - b);
}

describe("policyd/lib: an index of ranges", () => {
  it("SHARE-08: the index of random ranges, which overlap, finds those that contain a key", () => {
    fc.assert(
      fc.property(fc.array(range, { maxLength: 40 }), (ranges) => {
        const index = new RangeIndex(
          [...ranges.entries()].map(([place, one]) => [one, place] as const),
          (a, b) => a - b,
        );
        for (let key = 0; key <= 121; key++) {
          const expected = ranges.flatMap(({ first, last }, place) => (first <= key && key <= last ? [place] : []));
          assert.deepEqual(found(index, key), expected);
        }
      }),
    );
  });

  it("SHARE-08: a key is compared with few of 8,192 ranges, although one of them contains all others", () => {
    let compared = 0;
    const ranges = Array.from({ length: 8192 }, (_, place) => [{ first: 2 * place, last: 2 * place }, place] as const);
    const index = new RangeIndex([[{ first: 0, last: 20_000 }, -1] as const, ...ranges], (a, b) => {
      compared++;
      return a - b;
    });
    compared = 0;
    assert.deepEqual(found(index, 9000), [-1, 4500]);
    assert.ok(compared < 100, `${compared} comparisons`);
  });
});

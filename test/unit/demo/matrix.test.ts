import assert from "node:assert/strict";
import fc from "fast-check";
import {
  compareMatrices,
  type Expected,
  expectedMatrix,
  type Party,
  questionKey,
  type Seen,
} from "../../demo/matrix.ts";

const pod = (name: string, node: string, number: number): Party => {
  const addresses = { 4: `10.244.0.${number}`, 6: `fd00::${number}` };
  return { name, node, isPod: true, addresses, localAddresses: addresses };
};

const node: Party = {
  name: "n1",
  node: "n1",
  isPod: false,
  addresses: { 4: "192.0.2.2", 6: "2001:db8::2" },
  localAddresses: { 4: "10.244.0.1", 6: "fd00::1" },
};

const parties = [pod("a", "n1", 2), pod("b", "n1", 3), pod("c", "n2", 4), node];

const asExpected = (cell: Expected): Seen => ({ ...cell, why: "" });

describe("the demo's matrix", () => {
  const expected = expectedMatrix(parties, ["tcp", "udp"]);

  it("asks every end about every pod but itself, in both families", () => {
    // 4 sources × 3 pods − 3 pods about themselves, × 2 families × 2 protocols
    assert.equal(expected.length, (4 * 3 - 3) * 2 * 2);
    assert.equal(new Set(expected.map(questionKey)).size, expected.length);
    assert.ok(expected.every(({ source, target, reached }) => source !== target && target !== "n1" && reached));
  });

  it("expects pods to arrive from their own address, and nodes from that of the link towards the pod", () => {
    const source = (from: string, to: string): string | undefined =>
      expected.find((cell) => cell.source === from && cell.target === to && cell.family === 4)?.seenSource;
    assert.equal(source("a", "b"), "10.244.0.2");
    assert.equal(source("a", "c"), "10.244.0.2");
    assert.equal(source("n1", "a"), "10.244.0.1");
    assert.equal(source("n1", "c"), "192.0.2.2");
  });

  it("finds no difference where all is as expected, in any order", () => {
    fc.assert(
      fc.property(fc.shuffledSubarray([...expected], { minLength: expected.length }), (shuffled) => {
        assert.deepEqual(compareMatrices(expected, shuffled.map(asExpected)), []);
      }),
    );
  });

  it("finds exactly the cells that got no answer, with the reason", () => {
    fc.assert(
      fc.property(fc.subarray([...expected]), (lost) => {
        const seen = expected.map((cell) =>
          lost.includes(cell)
            ? { ...asExpected(cell), reached: false, seenSource: undefined, why: "no answer" }
            : asExpected(cell),
        );
        const differences = compareMatrices(expected, seen);
        assert.deepEqual(differences.map(questionKey), lost.map(questionKey));
        assert.ok(differences.every(({ problem }) => problem === "expected an answer: no answer"));
      }),
    );
  });

  const first = expected.slice(0, 1);
  const seenFirst = first.map(asExpected);

  it("finds a translated source address", () => {
    const [difference] = compareMatrices(
      first,
      seenFirst.map((cell) => ({ ...cell, seenSource: "10.244.0.1" })),
    );
    assert.equal(difference?.problem, "expected to arrive from 10.244.0.2, arrived from 10.244.0.1");
    const [unseen] = compareMatrices(
      first,
      seenFirst.map((cell) => ({ ...cell, seenSource: undefined })),
    );
    assert.equal(unseen?.problem, "expected to arrive from 10.244.0.2, arrived from an address nobody saw");
  });

  it("finds an answer where none was expected", () => {
    const closed = first.map((cell) => ({ ...cell, reached: false }));
    assert.equal(compareMatrices(closed, seenFirst)[0]?.problem, "expected no answer, got one");
    const silent = seenFirst.map((cell) => ({ ...cell, reached: false, seenSource: undefined }));
    assert.deepEqual(compareMatrices(closed, silent), []);
  });

  it("finds a cell that was not measured, and one that was not expected", () => {
    assert.equal(compareMatrices(first, [])[0]?.problem, "not measured");
    assert.equal(compareMatrices([], seenFirst)[0]?.problem, "measured, but nothing was expected of it");
  });
});

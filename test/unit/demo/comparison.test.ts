import assert from "node:assert/strict";
import { compareMatrices, type Expected } from "../../demo/matrix.ts";
import { type Answer, compareCells, type ExpectedCell, type SeenCell } from "../../demo/services/cells.ts";

const answer = (by: string, as = "itself"): Answer => ({ by, source: as, as });
const web: ExpectedCell = {
  frontend: "web",
  client: "pod-a",
  family: 4,
  outcome: "answered",
  answers: [answer("pod-b"), answer("pod-c")],
  isSticky: false,
};
const sticky: ExpectedCell = { ...web, isSticky: true };
const refused: ExpectedCell = { ...web, outcome: "refused", answers: [] };

describe("the demo's comparison of what it expects with what it has seen", () => {
  const cell: Expected = {
    source: "a",
    target: "b",
    family: 4,
    protocol: "tcp",
    reached: true,
    seenSource: "10.0.0.1",
  };

  it("names a cell of the matrix that was not measured, and one that nobody expected", () => {
    assert.equal(compareMatrices([cell], [])[0]?.problem, "not measured");
    assert.equal(compareMatrices([], [{ ...cell, why: "" }])[0]?.problem, "measured, but nothing was expected of it");
    assert.deepEqual(compareMatrices([cell], [{ ...cell, why: "" }]), []);
  });

  it("names a Service cell that was not measured", () => {
    assert.equal(compareCells([web], [])[0]?.saw, "nothing: not measured");
  });

  const cases: readonly (readonly [
    expected: ExpectedCell,
    answers: readonly Answer[],
    failure: string,
    saw: string,
  ])[] = [
    [web, [answer("pod-b")], "", "b as itself"],
    [web, [...web.answers, answer("pod-e")], "", "b c e as itself"],
    [web, [answer("pod-b"), answer("pod-c", "node1's bridge")], "", "b as itself, c as node1's bridge"],
    [web, web.answers, "no answer", "b c as itself, no answer"],
    [sticky, sticky.answers, "", "b c as itself"],
    [sticky, [answer("pod-e")], "", "e as itself"],
    [refused, [], "no answer", "no answer"],
    [refused, [answer("pod-b")], "", "b as itself"],
  ];
  for (const [expected, answers, failure, saw] of cases) {
    it(`a Service cell ${expected.isSticky ? "with affinity" : `that is ${expected.outcome}`} differs where it saw: ${saw}`, () => {
      const failures = failure === "" ? [] : [failure];
      const seen: SeenCell = { frontend: "web", client: "pod-a", family: 4, connections: 1, answers, failures };
      assert.equal(compareCells([expected], [seen])[0]?.saw, saw);
    });
  }
});

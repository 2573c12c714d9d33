import assert from "node:assert/strict";
import fc from "fast-check";
import { type Answer, cellKey, compareCells, type ExpectedCell, type SeenCell } from "../../demo/services/cells.ts";

const answer = (by: string, source = "10.244.1.2", as = "itself"): Answer => ({ by, source, as });

const web: ExpectedCell = {
  frontend: "web",
  client: "pod-a",
  family: 4,
  outcome: "answered",
  answers: [answer("pod-b"), answer("pod-c")],
  isSticky: false,
};
const sticky: ExpectedCell = { ...web, frontend: "sticky", isSticky: true };
const refused: ExpectedCell = { ...web, frontend: "empty", outcome: "refused", answers: [] };
const silent: ExpectedCell = { ...web, frontend: "near", family: 6, outcome: "no answer", answers: [] };

const seen = (cell: ExpectedCell, answers: readonly Answer[], ...failures: readonly string[]): SeenCell => {
  const { frontend, client, family } = cell;
  return { frontend, client, family, connections: answers.length + failures.length, answers, failures };
};

const asExpected = (cell: ExpectedCell): SeenCell => {
  if (cell.outcome !== "answered") return seen(cell, [], cell.outcome);
  return seen(cell, cell.isSticky ? cell.answers.slice(1) : cell.answers);
};

describe("the demo's Service cells", () => {
  const all = [web, sticky, refused, silent];

  it("the check of a result names exactly the cells that were not measured, if all others are as expected", () => {
    fc.assert(
      fc.property(fc.subarray(all), (lost) => {
        const measured = all.filter((cell) => !lost.includes(cell)).map(asExpected);
        const differences = compareCells(all, measured.toReversed());
        assert.deepEqual(differences.map(cellKey), lost.map(cellKey));
        assert.ok(differences.every(({ saw }) => saw === "nothing: not measured"));
      }),
    );
  });

  const difference = (cell: ExpectedCell, measured: SeenCell): string | undefined => {
    const [found] = compareCells([cell], [measured]);
    return found && `expected ${found.expected}; saw ${found.saw}`;
  };

  it("requires an answer of each pod that may answer, and no other, with the expected client address", () => {
    assert.equal(difference(web, seen(web, [answer("pod-b")])), "expected b c as itself; saw b as itself");
    assert.equal(
      difference(web, seen(web, [...web.answers, answer("pod-e")])),
      "expected b c as itself; saw b c e as itself",
    );
    const translated = [answer("pod-b"), answer("pod-c", "10.244.1.1", "node1's bridge")];
    assert.equal(
      difference(web, seen(web, translated)),
      "expected b c as itself; saw b as itself, c as node1's bridge",
    );
  });

  it("distinguishes two addresses of one node", () => {
    const own: ExpectedCell = { ...web, answers: [answer("pod-b", "10.244.1.1", "node1's bridge")] };
    const uplink = [answer("pod-b", "192.0.2.10", "node1's uplink")];
    assert.equal(difference(own, seen(own, uplink)), "expected b as node1's bridge; saw b as node1's uplink");
  });

  it("reports one failure beside answers", () => {
    const lost = "no answer, though it came to c as itself";
    assert.equal(difference(web, seen(web, web.answers, lost)), `expected b c as itself; saw b c as itself, ${lost}`);
  });

  it("requires always the same pod with affinity, and one that may answer", () => {
    const words = "expected always the same one of b c as itself";
    assert.equal(difference(sticky, seen(sticky, sticky.answers)), `${words}; saw b c as itself`);
    assert.equal(difference(sticky, seen(sticky, [answer("pod-e")])), `${words}; saw e as itself`);
    assert.equal(difference(sticky, seen(sticky, [])), `${words}; saw `);
  });

  it("distinguishes refused, silent and arrived without an answer", () => {
    assert.equal(difference(refused, seen(refused, [], "no answer")), "expected refused; saw no answer");
    assert.equal(difference(silent, seen(silent, [], "refused")), "expected no answer; saw refused");
    assert.equal(difference(silent, seen(silent, [answer("pod-b")])), "expected no answer; saw b as itself");
    const arrived = "no answer, though it came to b as itself";
    assert.equal(difference(silent, seen(silent, [], arrived)), `expected no answer; saw ${arrived}`);
  });
});

import { FAMILIES } from "../../../../kernel/ip/address.ts";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { DocumentEvaluator, type Outcome } from "../../../support/services/acceptance/by_evaluator.ts";
import type { Place } from "../../../support/services/acceptance/places.ts";
import { type Probe, protocolsOf, type Row, type Transport } from "../../../support/services/acceptance/row.ts";
import { ROWS } from "../../../support/services/acceptance/rows.ts";

/** Returns a row's expectation for one sender, in the evaluator's form. */
function expected(probe: Probe, from: Place): Outcome {
  if ("fails" in probe) return probe.fails;
  return new Map(
    Object.entries(probe.reaches).map(([place, sees]) => [place as Place, sees === "sender" ? from : sees]),
  );
}

describe("the acceptance table of Services", () => {
  it("has 107 rows, each once", () => {
    assert.equal(ROWS.length, 107);
    assert.equal(new Set(ROWS.map(({ id }) => id)).size, ROWS.length);
  });

  it("has a probe in every row that is ours", () => {
    const empty = ROWS.filter(({ probes = [], further = [] }) => probes.length + further.length === 0);
    assert.deepEqual(
      empty.map(({ id, onTop }) => [id, onTop]),
      [["3.6b", "CoreDNS"]],
    );
  });

  it("names behaviours that are explained", () => {
    const explained = readFileSync("docs/behaviours.md", "utf8");
    const ids = ROWS.flatMap(({ behaviours }) => behaviours.split(" ").filter((id) => id !== ""));
    assert.deepEqual(
      ids.filter((id) => !explained.includes(`* ${id}: `)),
      [],
    );
  });

  const evaluator = new DocumentEvaluator();
  for (const family of FAMILIES) {
    it(`MODEL-02: agrees with the evaluator and with the compiled rules, IPv${family}`, () => {
      const cases = ROWS.flatMap(casesOf);
      assert.ok(cases.length > 300, `${cases.length} cases`);
      for (const { id, probe, from, protocol } of cases) {
        const wanted = expected(probe, from);
        const outcome = evaluator.outcome(probe, from, protocol, family);
        const isPart = "othersIgnored" in probe;
        const about = `${id}: ${from} by ${protocol} to ${probe.to}`;
        assert.deepEqual(isPart ? partOf(outcome, wanted) : outcome, wanted, about);
      }
    });
  }
});

/** Returns every sender and protocol of a row. */
function casesOf({ id, probes = [] }: Row): readonly {
  readonly id: string;
  readonly probe: Probe;
  readonly from: Place;
  readonly protocol: Transport;
}[] {
  return probes.flatMap((probe) =>
    probe.from.flatMap((from) => protocolsOf(probe).map((protocol) => ({ id, probe, from, protocol }))),
  );
}

/** Returns the endpoints of an outcome that another outcome has, too. */
function partOf(outcome: Outcome, of: Outcome): Outcome {
  if (typeof outcome === "string" || typeof of === "string") return outcome;
  return new Map([...outcome].filter(([place]) => of.has(place)));
}

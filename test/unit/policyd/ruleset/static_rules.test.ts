import assert from "node:assert/strict";
import { counter, rule } from "../../../../kernel/nftables/model/statement.ts";
import { prepareStaticRules } from "../../../../policyd/ruleset/desired/static_rules.ts";

const CHAINS = 40;
const RULES = 10;
const table = {
  family: "inet",
  name: "t",
  sets: [],
  chains: Array.from({ length: CHAINS }, (_, number) => ({
    name: `chain${number}`,
    rules: Array.from({ length: RULES }, () => rule(counter)),
  })),
} as const;

/** A kernel that records prepared chains, and an event loop whose turns the test takes. */
function setUp(): {
  readonly prepared: string[];
  readonly turn: () => boolean;
  readonly end: () => void;
} {
  const prepared: string[] = [];
  const due: (() => void)[] = [];
  const clock = {
    after: (_milliseconds: number, action: () => void) => {
      due.push(action);
      return () => void due.splice(due.indexOf(action), 1);
    },
  };
  const kernel = { prepare: (_table: object, { name }: { readonly name: string }) => void prepared.push(name) };
  const end = prepareStaticRules([table], kernel, clock);
  const turn = (): boolean => {
    const action = due.shift();
    action?.();
    return action !== undefined;
  };
  return { prepared, turn, end };
}

describe("policyd/static rules", () => {
  it("API-20: all chains are prepared in advance, some in each turn of the event loop, none before the first", () => {
    const { prepared, turn } = setUp();
    assert.deepEqual(prepared, []);
    let turns = 0;
    for (let before = 0; turn(); before = prepared.length) {
      turns++;
      assert.ok(prepared.length - before <= 5, `${prepared.length - before} chains in one turn`);
    }
    assert.deepEqual(
      prepared,
      table.chains.map(({ name }) => name),
    );
    assert.equal(turns, CHAINS / 5);
  });

  it("API-20: ending the preparation leaves the remaining chains unprepared", () => {
    const { prepared, turn, end } = setUp();
    assert.ok(turn());
    end();
    assert.equal(turn(), false);
    assert.equal(prepared.length, 5);
  });
});

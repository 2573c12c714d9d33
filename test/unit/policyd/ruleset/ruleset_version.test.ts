import assert from "node:assert/strict";
import type { Change } from "../../../../kernel/nftables/encode/change.ts";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import type { SetDefinition, Table } from "../../../../kernel/nftables/model/object.ts";
import { counter, drop, goTo, inSet, rule } from "../../../../kernel/nftables/model/statement.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { Ruleset } from "../../../../policyd/ruleset/ruleset.ts";
import { namesVersion, withVersion } from "../../../../policyd/ruleset/schema.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { contentOf } from "../../../support/ruleset/content.ts";
import { podClaims, profileSets, profileTable, provideProfile } from "../../../support/ruleset/provided.ts";
import { sampleAddress } from "../../../support/ruleset/sample.ts";

/** Several times what one batch takes. */
const MANY = 60;
const PROFILES = Array.from({ length: MANY }, (_, number) => number);
const RANGES: SetDefinition = { name: "ranges", key: ["ipv4_addr"], isInterval: true };
const WRITTEN: SetDefinition = { name: "written", key: ["ipv4_addr"], isDynamic: true, timeout: 600_000, size: 1000 };

/** The first schema, with a set that rules write. */
function first(): Table {
  const { sets, chains, family, name } = profileTable();
  return withVersion({
    family,
    name,
    sets: [...sets, WRITTEN],
    chains: chains.filter((chain) => !namesVersion(chain)),
  });
}

/** The second schema: an additional set of ranges and chain, and all earlier chains use them. */
function second(): Table {
  const { sets, chains, family, name } = first();
  const asked = rule(inSet("ip saddr", RANGES.name), goTo("denied"));
  return withVersion({
    family,
    name,
    sets: [...sets, RANGES],
    chains: [
      ...chains.filter((chain) => !namesVersion(chain)).map((chain) => ({ ...chain, rules: [asked, ...chain.rules] })),
      { name: "denied", rules: [rule(counter, drop)] },
    ],
  });
}

function setUp(kernel: FakeNftables, table: Table): { readonly ruleset: Ruleset; readonly clock: FakeClock } {
  const clock = new FakeClock();
  const options = { kernel, clock, logger: recordingLogger(), tables: [table], minSyncPeriod: 0, syncPeriod: 1e9 };
  const ruleset = new Ruleset(options);
  for (const number of PROFILES) {
    provideProfile(ruleset, number);
    ruleset.claim(`pod ${number}`, podClaims(number, number));
  }
  if (table.sets.some(({ name }) => name === RANGES.name)) {
    const element = { key: [{ first: sampleAddress(0), last: sampleAddress(9) }] };
    ruleset.claim("ranges", [{ table, set: RANGES.name, element }]);
  }
  return { ruleset, clock };
}

/** Lets a daemon with this schema take over. @returns its batches */
function takeOver(kernel: FakeNftables, table: Table): readonly (readonly Change[])[] {
  const before = kernel.commits.length;
  const { ruleset, clock } = setUp(kernel, table);
  ruleset.start();
  clock.pass(100);
  assert.equal(ruleset.status().isReconciled, true, ruleset.status().lastError);
  ruleset.stop();
  return kernel.commits.slice(before);
}

const ALL_SETS = PROFILES.flatMap(profileSets);

describe("policyd/ruleset: tables of another version", () => {
  for (const [title, tables] of [
    ["up", [first(), second()]],
    ["down", [second(), first()]],
  ] as const) {
    it(`DP-07: ${title}, rules in force change in one batch without a new table, and the result equals a fresh build`, () => {
      const kernel = new FakeNftables();
      const [from, to] = tables;
      takeOver(kernel, from);
      const affinity = { key: [sampleAddress(77)], timeout: 600_000 };
      const write: Change = { kind: "add elements", table: from, set: WRITTEN, elements: [affinity] };
      kernel.commit([write]);
      const present = new Set(kernel.table(from)?.chains.keys());
      const batches = takeOver(kernel, to);
      assert.ok(!batches.flat().some(({ kind }) => kind === "delete table"));
      const flushing = batches.filter((batch) =>
        batch.some((change) => change.kind === "flush chain" && present.has(change.chain)),
      );
      const marking = batches.filter((batch) =>
        batch.some((change) => change.kind === "add chain" && namesVersion(change.chain)),
      );
      assert.equal(flushing.length, 1, "existing rules go in one batch");
      assert.deepEqual(flushing, marking, "the same batch marks the version");
      const fresh = new FakeNftables();
      takeOver(fresh, to);
      // Elements that rules have written stay.
      fresh.commit([write]);
      assert.equal(contentOf(kernel, to, ALL_SETS), contentOf(fresh, to, ALL_SETS));
    });
  }

  it("DP-15: a set of ranges that another version has is filled a batch before it is in force", () => {
    const kernel = new FakeNftables();
    takeOver(kernel, first());
    const batches = takeOver(kernel, second());
    const filling = batches.findIndex((batch) =>
      batch.some((change) => change.kind === "add elements" && change.set.name === RANGES.name),
    );
    const naming = batches.findIndex((batch) =>
      batch.some((change) => change.kind === "add chain" && namesVersion(change.chain)),
    );
    assert.ok(filling >= 0 && filling < naming, `filled by batch ${filling}, in force by ${naming}`);
  });

  it("DP-07: a table whose set has another size or counters is replaced as a whole", () => {
    for (const change of [{ size: 2000 }, { hasCounters: true }]) {
      const kernel = new FakeNftables();
      takeOver(kernel, first());
      const { family, name, sets, chains } = first();
      const other = withVersion({
        family,
        name,
        sets: sets.map((set) => (set.name === WRITTEN.name ? { ...set, ...change } : set)),
        chains: chains.filter((chain) => !namesVersion(chain)),
      });
      const kinds = takeOver(kernel, other)
        .flat()
        .map(({ kind }) => kind);
      assert.ok(kinds.includes("delete table"), JSON.stringify(change));
    }
  });
});

import assert from "node:assert/strict";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import type { Change } from "../../../../kernel/nftables/encode/change.ts";
import type { Table } from "../../../../kernel/nftables/model/object.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { EARLY_TABLE, writeEarlyTable } from "../../../../policyd/protection/early_table.ts";
import { rulesetBench } from "../../../support/ruleset/bench.ts";
import { sampleAddress, sampleClaims, sampleTables } from "../../../support/ruleset/sample.ts";

const MIN_SYNC_PERIOD = 1000;
const SYNC_PERIOD = 30_000;

function setUp(kernel = new FakeNftables(), tables: readonly Table[] = sampleTables()) {
  const times = { minSyncPeriod: MIN_SYNC_PERIOD, syncPeriod: SYNC_PERIOD };
  return { ...rulesetBench(kernel, tables, times), tables };
}

function touched(changes: readonly Change[] | undefined): number {
  return (changes ?? []).reduce((sum, change) => sum + ("elements" in change ? change.elements.length : 1), 0);
}

function content(kernel: FakeNftables, tables: readonly Table[]): readonly unknown[] {
  return tables.flatMap((table) =>
    table.sets.map((set) => [table.family, set.name, kernel.elements(table, set).map(({ key }) => key)]),
  );
}

describe("policyd/ruleset", () => {
  it("the first batch has all tables with everything that was claimed before the start (DP-01)", () => {
    const { kernel, ruleset, tables } = setUp();
    ruleset.claim("a", sampleClaims(1, 9));
    assert.equal(kernel.commits.length, 0);
    ruleset.start();
    assert.equal(kernel.commits.length, 1);
    for (const table of tables) assert.equal(kernel.table(table)?.comment, table.comment);
    assert.deepEqual(ruleset.status(), {
      isReconciled: true,
      elements: 4,
      pending: 0,
      pendingSince: undefined,
      commits: 1,
      failures: 0,
      repairs: 0,
      replacements: 2,
      lastError: undefined,
    });
  });

  it("an isolated change is committed at once, and a burst as one batch after minSyncPeriod (DP-02)", () => {
    const { kernel, clock, ruleset } = setUp();
    ruleset.start();
    clock.pass(MIN_SYNC_PERIOD);
    ruleset.claim("a", sampleClaims(1, 9));
    clock.pass(0);
    assert.equal(kernel.commits.length, 2);
    for (let i = 2; i < 100; i++) {
      ruleset.claim(`a${i}`, sampleClaims(i, 9));
      clock.pass(5);
    }
    assert.equal(kernel.commits.length, 2, "nothing before the period is over");
    clock.pass(MIN_SYNC_PERIOD);
    assert.equal(kernel.commits.length, 3);
    ruleset.claim("urgent", sampleClaims(500, 9), "urgent");
    clock.pass(0);
    assert.equal(kernel.commits.length, 4, "an urgent claim does not wait");
    ruleset.claim("urgent", sampleClaims(501, 9), "urgent");
    ruleset.claim("patient", sampleClaims(502, 9));
    clock.pass(0);
    assert.equal(kernel.commits.length, 5, "a claim that is not urgent does not delay it");
    ruleset.claim("patient", sampleClaims(503, 9));
    ruleset.claim("urgent", sampleClaims(501, 9), "urgent");
    clock.pass(0);
    assert.equal(kernel.commits.length, 5, "an urgent claim of what is claimed already brings nothing forward");
  });

  it("a failed batch loses no pending change, and the kernel is read before the retry (DP-11)", () => {
    const kernel = new FakeNftables();
    const { ruleset, clock, logger, tables } = setUp(kernel);
    ruleset.start();
    const commit = kernel.commit.bind(kernel);
    kernel.commit = () => {
      throw new Error("refused");
    };
    ruleset.claim("a", sampleClaims(1, 9));
    assert.equal(ruleset.flush(), false);
    assert.equal(ruleset.status().lastError, "refused");
    assert.equal(ruleset.status().pending, 4);
    ruleset.claim("b", sampleClaims(2, 9));
    clock.pass(5000);
    kernel.commit = commit;
    clock.pass(10_000);
    assert.equal(ruleset.status().isReconciled, true);
    assert.equal(content(kernel, tables).flat(2).length > 0, true);
    assert.equal(ruleset.status().pending, 0);
    assert.ok(logger.lines.some(({ level, fields }) => level === "error" && fields["error"] === "refused"));
  });

  it("a batch whose answer was lost is not written again (DP-11)", () => {
    const kernel = new FakeNftables();
    const { ruleset, clock } = setUp(kernel);
    ruleset.start();
    const commit = kernel.commit.bind(kernel);
    kernel.commit = (changes) => {
      commit(changes);
      throw new Error("no answer");
    };
    ruleset.claim("a", sampleClaims(1, 9));
    ruleset.flush();
    kernel.commit = commit;
    const before = kernel.commits.length;
    clock.pass(60);
    assert.equal(ruleset.status().isReconciled, true);
    assert.equal(kernel.commits.length, before);
  });

  it("correct tables are adopted, with their rules written again and their elements unchanged (DP-06)", () => {
    const first = setUp();
    for (let i = 0; i < 50; i++) first.ruleset.claim(`s${i}`, sampleClaims(i, 1));
    first.ruleset.start();
    const second = setUp(first.kernel);
    for (let i = 1; i < 51; i++) second.ruleset.claim(`s${i}`, sampleClaims(i, 1));
    second.ruleset.start();
    const changes = first.kernel.commits.at(-1) ?? [];
    assert.equal(
      changes.some(({ kind }) => kind === "delete table"),
      false,
    );
    assert.equal(
      changes.some(({ kind }) => kind === "flush chain"),
      true,
    );
    assert.equal(touched(changes.filter((change) => "elements" in change)), 8, "s0 goes, s50 comes");
    assert.equal(second.ruleset.status().replacements, 0);
  });

  it("a table of another version is replaced in one batch and keeps what rules have written, up and down (DP-07)", () => {
    const kernel = new FakeNftables();
    const affinity = { key: [sampleAddress(77)], timeout: 600_000 };
    for (const revision of [0, 1, 0]) {
      const tables = sampleTables({ revision });
      const { ruleset } = setUp(kernel, tables);
      ruleset.claim("a", sampleClaims(1, 1));
      const before = kernel.commits.length;
      ruleset.start();
      assert.equal(kernel.commits.length, before + 1);
      ruleset.stop();
      const [inet] = tables;
      const set = inet?.sets.find(({ name }) => name === "affinity");
      assert.ok(inet !== undefined && set !== undefined);
      if (before === 0) kernel.commit([{ kind: "add elements", table: inet, set, elements: [affinity] }]);
      assert.deepEqual(kernel.elements(inet, set), [affinity]);
      assert.equal(kernel.table(inet)?.comment, inet.comment);
    }
  });

  it("the kernel is read for foreign changes only when the ruleset's generation is not our own (DP-08)", () => {
    const { kernel, clock, ruleset, tables } = setUp();
    ruleset.claim("a", sampleClaims(1, 1));
    ruleset.start();
    let reads = 0;
    const table = kernel.table.bind(kernel);
    kernel.table = (reference) => {
      reads++;
      return table(reference);
    };
    clock.pass(SYNC_PERIOD);
    assert.equal(reads, 0);
    const server = {
      address: parseAddress("192.0.2.1"),
      protocol: "TCP",
      port: 6443,
      owner: "the API server",
    } as const;
    writeEarlyTable({ kernel, ruleset }, [server]);
    assert.notEqual(kernel.table(EARLY_TABLE), undefined);
    writeEarlyTable({ kernel, ruleset }, []);
    assert.equal(kernel.table(EARLY_TABLE), undefined);
    reads = 0;
    clock.pass(SYNC_PERIOD);
    assert.equal(reads, 0);
    const [inet] = tables;
    const frontends = inet?.sets[0];
    assert.ok(inet !== undefined && frontends !== undefined);
    kernel.commit([{ kind: "flush set", table: inet, set: frontends }]);
    clock.pass(SYNC_PERIOD);
    assert.ok(reads > 0);
    assert.equal(kernel.elements(inet, frontends).length, 1);
    assert.equal(ruleset.status().repairs, 1);
  });

  it("SYNC-05 DP-09: a chain and an element that were deleted without a notification are back after syncPeriod, and the log names both", () => {
    const { kernel, clock, logger, ruleset, tables } = setUp();
    ruleset.claim("a", sampleClaims(1, 1));
    ruleset.start();
    const [inet] = tables;
    const chain = inet?.chains.find(({ rules }) => rules.length > 0);
    assert.ok(inet !== undefined && chain !== undefined);
    const [frontends] = inet.sets;
    assert.ok(frontends !== undefined);
    const whole = kernel.rulesOf(inet, chain.name).length;
    kernel.commit([
      { kind: "flush set", table: inet, set: frontends },
      { kind: "flush chain", table: inet, chain: chain.name },
      { kind: "delete chain", table: inet, chain: chain.name },
    ]);
    clock.pass(SYNC_PERIOD - 1);
    assert.deepEqual(kernel.rulesOf(inet, chain.name), []);
    clock.pass(1);
    assert.equal(kernel.rulesOf(inet, chain.name).length, whole);
    assert.equal(kernel.elements(inet, frontends).length, 1);
    assert.equal(ruleset.status().repairs, 2);
    const found = "chain forward: missing; set frontends: other elements";
    assert.deepEqual(logger.lines.at(-1)?.fields, { table: "inet drawbridge", found });
  });

  it("followers learn when the kernel has all rules, and the status since when it lacks some", () => {
    const { kernel, clock, ruleset } = setUp();
    const reported: boolean[] = [];
    ruleset.committed.subscribe(({ isWhole }) => reported.push(isWhole));
    ruleset.claim("a", sampleClaims(1, 1));
    assert.deepEqual([reported, ruleset.status().pendingSince], [[], clock.now()]);
    ruleset.start();
    assert.deepEqual([reported, ruleset.status().pendingSince], [[true], undefined]);
    const commit = kernel.commit.bind(kernel);
    kernel.commit = () => {
      throw new Error("refused");
    };
    const since = clock.now();
    ruleset.claim("b", sampleClaims(2, 1));
    clock.pass(MIN_SYNC_PERIOD + 500);
    assert.deepEqual([reported.length, ruleset.status().pendingSince], [1, since]);
    kernel.commit = commit;
    clock.pass(10_000);
    assert.deepEqual([reported.slice(1), ruleset.status().pendingSince], [[true], undefined]);
    ruleset.claim("c", sampleClaims(3, 1));
    clock.pass(MIN_SYNC_PERIOD);
    assert.deepEqual(reported.slice(2), [false]);
  });

  it("POD-20: only the selected elements that rules have written are deleted, even if some expire meanwhile", () => {
    const { kernel, ruleset, tables } = setUp();
    ruleset.start();
    const [inet] = tables;
    const set = inet?.sets.find(({ name }) => name === "affinity");
    assert.ok(inet !== undefined && set !== undefined);
    const elements = [1, 2, 3].map((number) => ({ key: [number] }));
    kernel.commit([{ kind: "add elements", table: inet, set, elements }]);
    const list = kernel.elements.bind(kernel);
    let lists = 0;
    kernel.elements = (...asked) => {
      // The first list has an element that no longer exists when it is deleted.
      const found = list(...asked);
      return lists++ === 0 ? [...found, { key: [9] }] : found;
    };
    const generation = kernel.generation();
    assert.equal(ruleset.deleteWritten(inet, "affinity", [[1], [3], [9]]), 2);
    assert.deepEqual(list(inet, set), [{ key: [2] }]);
    assert.equal(kernel.generation(), generation + 1);
    assert.equal(ruleset.deleteWritten(inet, "nosuch", [[2]]), 0);
  });
});

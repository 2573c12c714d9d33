import assert from "node:assert/strict";
import { FakeNftables } from "../../../support/nftables/fake/fake_nftables.ts";
import { goTo, rule } from "../../../../kernel/nftables/model/statement.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { Ruleset } from "../../../../policyd/ruleset/ruleset.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { profileObjects, profileTable } from "../../../support/ruleset/provided.ts";
import { touchedChains } from "../../../support/ruleset/touched.ts";

describe("policyd/ruleset with hooks that come and go", () => {
  it("DP-12: a chain with a hook comes when the chains it leads to have their rules, and goes in one batch", () => {
    const kernel = new FakeNftables();
    const options = { clock: new FakeClock(), logger: recordingLogger(), minSyncPeriod: 0, syncPeriod: 30_000 };
    const ruleset = new Ruleset({ ...options, kernel, tables: [profileTable()] });
    ruleset.start();
    const chains = (): readonly string[] => [...(kernel.table(profileTable())?.chains.keys() ?? [])];
    const atFirst = chains();
    const before = kernel.commits.length;
    const { chains: led, ...objects } = profileObjects(1);
    const base = { type: "filter", hook: "input", priority: 0, policy: "accept" } as const;
    const hook = { name: "hooked", base, rules: [rule(goTo("first1"))] };
    ruleset.provide("hook", { ...objects, chains: [hook, ...led] });
    ruleset.flush();
    assert.equal(ruleset.status().lastError, undefined);
    const batches = kernel.commits.slice(before);
    assert.deepEqual(
      batches.map((batch) => touchedChains(batch, "add rule").includes("hooked")),
      [false, true],
    );
    assert.ok(touchedChains(batches[0], "add rule").includes("first1"));
    assert.equal(kernel.table(profileTable())?.chains.get("hooked")?.attributes.hook?.priority, 0);
    const known = kernel.commits.length;
    ruleset.verify();
    assert.equal(kernel.commits.length, known, "the chain is correct");
    ruleset.provide("hook", { ...objects, sets: [], chains: [] });
    ruleset.flush();
    assert.deepEqual(chains(), atFirst);
  });
});

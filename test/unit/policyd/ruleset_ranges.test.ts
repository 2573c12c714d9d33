import assert from "node:assert/strict";
import { FakeNftables } from "../../../kernel/nftables/fake_nftables.ts";
import { goTo, inSet, rule } from "../../../kernel/nftables/statement.ts";
import { FakeClock } from "../../../policyd/clock.ts";
import { Ruleset } from "../../../policyd/dataplane/ruleset.ts";
import { recordingLogger } from "../../../policyd/log/recording_logger.ts";
import { podClaims, profileTable } from "../../support/dataplane/provided.ts";

const table = profileTable();
const ranges = { name: "ranges", key: ["ipv4_addr"], isInterval: true } as const;

describe("policyd/ruleset with sets of ranges", () => {
  it("DP-15: a new set of ranges is there, with its elements, a batch before the rules that name it", () => {
    const kernel = new FakeNftables();
    const clock = new FakeClock();
    const options = { kernel, clock, logger: recordingLogger(), tables: [table], minSyncPeriod: 0, syncPeriod: 60_000 };
    const ruleset = new Ruleset(options);
    ruleset.start();
    const judge = { name: "first0", rules: [rule(inSet("ip saddr", ranges.name), goTo("dropped"))] };
    ruleset.provide("profile 0", { table, sets: [ranges], chains: [judge] });
    const claimRange = (last: number): void =>
      ruleset.claim("profile 0", [{ table, set: ranges.name, element: { key: [{ first: 0, last }] } }]);
    claimRange(9);
    ruleset.claim("pod 0", podClaims(0, 0));
    clock.pass(0);
    const batches = kernel.commits
      .slice(1)
      .map((batch) => batch.flatMap((change) => (change.kind === "add elements" ? [change.set.name] : [])));
    assert.deepEqual(batches, [["ranges"], ["known", "verdicts"]]);
    claimRange(19);
    clock.pass(0);
    assert.equal(kernel.commits.length, 4, "a change of a set that is there is one batch");
  });
});

import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { nftablesCounters } from "../../kernel/nftables/decode/counters.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { realClock } from "../../policyd/lib/clock.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { rulesetOver } from "../support/ruleset/bench.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { contentOf } from "../support/ruleset/content.ts";
import { profileSets, profileTable, provideJudged, withdrawJudged } from "../support/ruleset/provided.ts";
import { runRandomProfiles } from "../support/ruleset/random_profiles.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { randomFrom } from "../support/random.ts";
import { countedSeed } from "../support/long_form.ts";

const STEPS = 400;
const COMPARISONS = 20;
const PROFILES = 12;
/** The number of objects, which take several hundred batches. */
const MANY = 400;

const table = profileTable();
const where = "inet drawbridge-policy";

describe("policyd/ruleset with objects that come and go, in the kernel", function () {
  this.timeout(120_000);
  let lab: Lab | undefined;

  before(function () {
    lab = suiteLab(this, "ruleset-provide");
  });

  function open(namespace: LabNamespace): NftablesSocket {
    return namespace.inside(() => new NftablesSocket(namespace.calls));
  }

  function namespaceOf(name: string): LabNamespace {
    assert.ok(lab !== undefined);
    return lab.namespace(name);
  }

  it(`DP-11: after ${STEPS} random changes with faults it equals a fresh build`, function () {
    this.timeout(240_000);
    const seed = countedSeed();
    console.log(`      seed ${seed}`);
    const node = namespaceOf("random");
    let others = 0;
    const fresh = (): NftablesSocket => open(namespaceOf(`fresh${++others}`));
    const parts = { kernel: open(node), fresh, random: randomFrom(seed), steps: STEPS, comparisons: COMPARISONS };
    const seen = runRandomProfiles(parts);
    console.log(`      ${JSON.stringify(seen)}`);
    assert.ok(seen.faults > 10 && seen.restarts > 2 && seen.harms > 0 && seen.comparisons === COMPARISONS);
  });

  it("DP-13: a great many objects are added and removed in slices, with the same result as at once", async () => {
    const node = namespaceOf("many");
    const kernel = open(node);
    const ruleset = rulesetOver(kernel, [table], { clock: realClock });
    ruleset.start();
    provideJudged(ruleset, [0, MANY]);
    let turns = 0;
    while (!ruleset.status().isReconciled) {
      await sleep(0);
      turns++;
      assert.equal(ruleset.status().lastError, undefined);
    }
    assert.ok(turns > 20, `${turns} turns`);
    const other = open(namespaceOf("at-once"));
    const once = rulesetOver(other, [table]);
    provideJudged(once, [0, MANY]);
    once.start();
    assert.equal(once.flush(), true, once.status().lastError);
    const sets = Array.from({ length: MANY }, (_, number) => profileSets(number)).flat();
    assert.equal(contentOf(kernel, table, sets), contentOf(other, table, sets));
    withdrawJudged(ruleset, [0, MANY]);
    while (!ruleset.status().isReconciled) await sleep(0);
    assert.equal(ruleset.status().failures, 0, ruleset.status().lastError);
    assert.deepEqual(
      new Set(kernel.chains(table).map(({ name }) => name)),
      new Set(table.chains.map(({ name }) => name)),
    );
    assert.deepEqual(new Set(kernel.sets(table).map(({ name }) => name)), new Set(["known", "verdicts"]));
    ruleset.stop();
    kernel.close();
    other.close();
  });

  it("DP-11 DP-06: a set that is desired again during its removal has no old elements", () => {
    const [kernel, other] = [open(namespaceOf("returning")), open(namespaceOf("returned"))];
    for (const [socket, value] of [
      [kernel, 1],
      [other, 2],
    ] as const) {
      const ruleset = rulesetOver(socket, [table]);
      provideJudged(ruleset, [0, MANY], value);
      ruleset.start();
      assert.equal(ruleset.flush(), true, ruleset.status().lastError);
      ruleset.stop();
    }
    const clock = new FakeClock();
    const ruleset = rulesetOver(kernel, [table], { clock });
    clock.after(0, () => clock.after(0, () => provideJudged(ruleset, [0, MANY], 2)));
    ruleset.start();
    clock.pass(0);
    assert.deepEqual([ruleset.status().isReconciled, ruleset.status().lastError], [true, undefined]);
    const sets = Array.from({ length: MANY }, (_, number) => profileSets(number)).flat();
    assert.equal(contentOf(kernel, table, sets), contentOf(other, table, sets));
    ruleset.stop();
    kernel.close();
    other.close();
  });

  describe("of a daemon that has ended", () => {
    let node: LabNamespace;
    let writer: NftablesSocket;

    before(() => {
      node = namespaceOf("former");
      writer = open(node);
      const ruleset = rulesetOver(writer, [table]);
      provideJudged(ruleset, [0, PROFILES]);
      ruleset.start();
      assert.equal(ruleset.flush(), true, ruleset.status().lastError);
      ruleset.stop();
    });
    after(() => writer.close());

    it("DP-06: is adopted by the next daemon, and its listing loads again", () => {
      const heir = rulesetOver(writer, [table], { clock: realClock });
      node.exec("nft", [`insert rule ${where} first1 counter accept`]);
      provideJudged(heir, [0, PROFILES - 1]);
      heir.start();
      assert.equal(heir.flush(), true, heir.status().lastError);
      assert.deepEqual([heir.status().replacements, heir.status().failures], [0, 0]);
      const listing = node.ruleset();
      assert.doesNotMatch(listing, /counter packets 0 bytes 0 accept/, "a foreign rule in an old chain");
      assert.doesNotMatch(listing, new RegExp(`first${PROFILES - 1}\\b`), "a chain that is not desired any more");
      assert.match(listing, new RegExp(`first${PROFILES - 2}\\b`));
      const fresh = namespaceOf("listing");
      fresh.exec("nft", ["-f", "-"], listing);
      assert.equal(fresh.ruleset(), listing);
      heir.stop();
    });

    it("DP-12: counters of rules in provided chains can be read", () => {
      const counters = node.inside(() => [...nftablesCounters(node.calls).rules(table, "first1")].flat());
      assert.deepEqual(
        counters.map(({ comment, packets }) => [comment, packets]),
        [["profile 1", 0]],
      );
    });
  });
});

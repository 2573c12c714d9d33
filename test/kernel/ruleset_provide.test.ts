import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { startNotificationThread } from "../../kernel/notifications/thread.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import { nftablesCounters } from "../../kernel/nftables/decode/counters.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import { realClock } from "../../policyd/lib/clock.ts";
import { FakeClock } from "../support/fake_clock.ts";
import { Ruleset } from "../../policyd/ruleset/ruleset.ts";
import { RulesetWatch } from "../../policyd/ruleset/ruleset_watch.ts";
import { recordingLogger } from "../support/recording_logger.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { contentOf } from "../support/ruleset/content.ts";
import { profileSets, profileTable, provideJudged, withdrawJudged } from "../support/ruleset/provided.ts";
import { runRandomProfiles } from "../support/ruleset/random_profiles.ts";
import { requireKernel } from "../support/privilege.ts";
import { randomFrom } from "../support/random.ts";
import { countedSeed } from "../support/long_form.ts";
import { until } from "../support/until.ts";

const STEPS = 400;
const COMPARISONS = 20;
const REPAIR_MILLISECONDS = 1000;
const PROFILES = 12;
/** The number of objects, which take several hundred batches. */
const MANY = 400;

const table = profileTable();
const where = "inet drawbridge-policy";
const SETS = Array.from({ length: PROFILES }, (_, number) => profileSets(number)).flat();

/** Changes that another program can make to provided objects with nft. */
const harms = {
  "flush ruleset": "flush ruleset",
  table: `delete table ${where}`,
  rules: `flush chain ${where} first3`,
  "another rule": `insert rule ${where} second4 counter accept`,
  "rules of the schema": `flush chain ${where} decide`,
  element: `flush set ${where} members0`,
  "foreign element": `add element ${where} ports1 { 192.0.2.1 . 80 }`,
  "another verdict": `delete element ${where} verdicts { 10.2.0.1 }; add element ${where} verdicts { 10.2.0.1 : drop }`,
  map: `flush chain ${where} first5; flush map ${where} parts5; delete map ${where} parts5`,
  chain: `flush chain ${where} first6; flush map ${where} parts6; flush chain ${where} second6; delete chain ${where} second6`,
  "foreign chain": `add chain ${where} stranger; add rule ${where} stranger goto first1`,
  "foreign chain in a foreign map": `add chain ${where} stranger; add map ${where} strangers { type ipv4_addr : verdict; elements = { 192.0.2.1 : jump stranger }; }`,
  "foreign hook": `add chain ${where} hooked { type filter hook forward priority 7; policy drop; }`,
} as const;

const harmNames = Object.keys(harms).filter((name): name is keyof typeof harms => Object.hasOwn(harms, name));

describe("policyd/ruleset with objects that come and go, in the kernel", function () {
  this.timeout(120_000);
  let lab: Lab | undefined;

  before(function () {
    requireKernel(this);
    lab = createLab("ruleset-provide");
  });
  after(() => lab?.destroy());

  function open(namespace: LabNamespace, portId?: number): NftablesSocket {
    return namespace.inside(() => new NftablesSocket(namespace.calls, portId));
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
    const options = { logger: recordingLogger(), tables: [table], minSyncPeriod: 0, syncPeriod: 3_600_000 };
    const ruleset = new Ruleset({ ...options, kernel, clock: realClock });
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
    const once = new Ruleset({ ...options, kernel: other, clock: new FakeClock() });
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

  it("DP-11 DP-14: a set that is desired again during its removal has no old elements", () => {
    const rulesetOf = (kernel: NftablesSocket, clock: FakeClock): Ruleset =>
      new Ruleset({
        kernel,
        clock,
        logger: recordingLogger(),
        tables: [table],
        minSyncPeriod: 0,
        syncPeriod: 3_600_000,
      });
    const [kernel, other] = [open(namespaceOf("returning")), open(namespaceOf("returned"))];
    for (const [socket, value] of [
      [kernel, 1],
      [other, 2],
    ] as const) {
      const ruleset = rulesetOf(socket, new FakeClock());
      provideJudged(ruleset, [0, MANY], value);
      ruleset.start();
      assert.equal(ruleset.flush(), true, ruleset.status().lastError);
      ruleset.stop();
    }
    const clock = new FakeClock();
    const ruleset = rulesetOf(kernel, clock);
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

  describe("which other programs change", () => {
    let node: LabNamespace;
    let events: KernelNotifications | undefined;
    let writer: NftablesSocket;
    let watch: RulesetWatch | undefined;
    let ruleset: Ruleset | undefined;

    before(async () => {
      node = namespaceOf("harm");
      const portId = randomInt(2 ** 30, 2 ** 31);
      writer = open(node, portId);
      events = startNotificationThread({ calls: node.calls, namespacePath: node.path });
      const logger = recordingLogger();
      const options = { clock: realClock, logger, tables: [table], minSyncPeriod: 0, syncPeriod: 3_600_000 };
      ruleset = new Ruleset({ ...options, kernel: writer });
      provideJudged(ruleset, [0, PROFILES]);
      watch = new RulesetWatch({ ruleset, clock: realClock, logger, portId });
      await watch.start(events);
      ruleset.start();
      assert.equal(ruleset.flush(), true, ruleset.status().lastError);
    });
    after(async () => {
      watch?.stop();
      ruleset?.stop();
      await events?.stop();
    });

    const untilRepaired = (whole: string, repairs: number, what: string): Promise<void> =>
      until(() => readContent(writer) === whole && ruleset?.status().repairs !== repairs, what, REPAIR_MILLISECONDS);

    it("DP-09: is repaired in under a second and counted after each kind of harm", async function () {
      this.timeout(120_000);
      assert.ok(ruleset !== undefined);
      const whole = contentOf(writer, table, SETS);
      for (const what of harmNames) {
        const { repairs } = ruleset.status();
        node.exec("nft", ["-f", "-"], harms[what]);
        await untilRepaired(whole, repairs, what);
      }
    });

    it("DP-09: a rule of a provided chain that was replaced by one of the same shape is noticed", async () => {
      assert.ok(ruleset !== undefined);
      const whole = contentOf(writer, table, SETS);
      const { repairs } = ruleset.status();
      const handle = /@ports2 .*# handle (\d+)/.exec(node.ruleset("-a"))?.[1] ?? "";
      const rule = "ip daddr . tcp dport @ports3 counter return";
      node.exec("nft", [`replace rule ${where} second2 handle ${handle} ${rule}`]);
      await untilRepaired(whole, repairs, "a rule");
    });

    it("DP-14: is adopted by the next daemon, and its listing loads again", () => {
      ruleset?.stop();
      const heir = new Ruleset({
        kernel: writer,
        clock: realClock,
        logger: recordingLogger(),
        tables: [table],
        minSyncPeriod: 0,
        syncPeriod: 3_600_000,
      });
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

/** Returns the content; undefined while something is missing. */
function readContent(kernel: NftablesSocket): string | undefined {
  try {
    return contentOf(kernel, table, SETS);
  } catch (error) {
    if (error instanceof NetlinkError) return undefined;
    throw error;
  }
}

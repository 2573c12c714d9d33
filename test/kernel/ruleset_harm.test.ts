import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import type { SetDefinition, Table } from "../../kernel/nftables/model/object.ts";
import { realClock } from "../../policyd/lib/clock.ts";
import type { Ruleset } from "../../policyd/ruleset/ruleset.ts";
import { RulesetWatch } from "../../policyd/ruleset/ruleset_watch.ts";
import { recordingLogger } from "../support/recording_logger.ts";
import { rulesetOver } from "../support/ruleset/bench.ts";
import type { Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { sampleClaims, sampleTables } from "../support/ruleset/sample.ts";
import { contentOf } from "../support/ruleset/content.ts";
import { profileSets, profileTable, provideJudged, withdrawJudged } from "../support/ruleset/provided.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { until } from "../support/until.ts";

const REPAIR_MILLISECONDS = 1000;
const OWNERS = 20;

const FOREIGN_DROP = "a foreign table that drops, which stays";

/** Changes that another program can make to our tables with nft. */
const SAMPLE_HARMS: Readonly<Record<string, string>> = {
  "flush ruleset": "flush ruleset",
  table: "delete table inet drawbridge",
  "bridge table": "delete table bridge drawbridge",
  chain: "flush chain inet drawbridge forward; delete chain inet drawbridge forward",
  rules: "flush chain inet drawbridge forward",
  "another rule": "insert rule inet drawbridge forward counter accept",
  "another policy": "add chain inet drawbridge forward { policy drop; }",
  element: "delete element inet drawbridge frontends { 10.0.0.1 . 80 }",
  "foreign element": "add element inet drawbridge frontends { 192.0.2.1 . 80 }",
  "foreign catch-all": "add element inet drawbridge endpoints { * : 192.0.2.1 . 1 }",
  "another value":
    "delete element inet drawbridge endpoints { 10.0.0.1 . 80 }; add element inet drawbridge endpoints { 10.0.0.1 . 80 : 192.0.2.1 . 1 }",
  set: "flush set inet drawbridge ranges",
  "a set of another form":
    "delete set inet drawbridge ranges; add set inet drawbridge ranges { type ipv4_addr; flags interval, timeout; }",
  "foreign chain": "add chain inet drawbridge stranger",
  [FOREIGN_DROP]:
    "add table inet stranger; add chain inet stranger c { type filter hook forward priority -100; policy drop; }",
};

/** Objects that nft allows in our tables with names, or in a form, that ours never have. */
const ODD: Readonly<Record<string, string>> = {
  "a chain of another alphabet": "add chain inet drawbridge _my.chain/1",
  "a chain of a long name": `add chain inet drawbridge ${"a".repeat(100)}`,
  "a set of another alphabet": "add set inet drawbridge _my.set/1 { type ipv4_addr; elements = { 192.0.2.1 }; }",
  "a map of another alphabet to a chain of one":
    "add chain inet drawbridge my.chain; add map inet drawbridge my.map { type ipv4_addr : verdict; elements = { 192.0.2.1 : jump my.chain }; }",
  "a block in a rule": "insert rule inet drawbridge forward jump { counter; accept; }",
  "a block with a set of its own":
    "add set inet drawbridge theirs { type ipv4_addr; }; insert rule inet drawbridge forward jump { ip saddr @theirs accept; }",
  "a block in a chain of theirs":
    "add chain inet drawbridge theirs; add rule inet drawbridge theirs jump { counter; accept; }",
  "an interface of another alphabet": 'add element bridge drawbridge sources { "we+ird" . 10.0.0.1 }',
  "an interface with what separates keys": 'add element bridge drawbridge sources { "a b|c" . 10.0.0.1 }',
};

const PROFILES = 12;
const where = "inet drawbridge-policy";

/** Changes to objects that come and go. */
const PROFILE_HARMS: Readonly<Record<string, string>> = {
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
};

interface Subject {
  readonly title: string;
  readonly isOwned: boolean;
  readonly tables: readonly Table[];
  /** Sets of the tables that come and go. */
  readonly provided: readonly SetDefinition[];
  readonly harms: Readonly<Record<string, string>>;
  readonly fill: (ruleset: Ruleset) => void;
  /** Adds something to what is desired, or takes it back. */
  readonly change: (ruleset: Ruleset, isWanted: boolean) => void;
  /** A rule with elements, its chain, and another rule of the same shape. */
  readonly replaced: { readonly chain: string; readonly set: string; readonly rule: string };
}

const claimSamples = (ruleset: Ruleset): void => {
  for (let i = 1; i <= OWNERS; i++) ruleset.claim(`o${i}`, sampleClaims(i, i));
};

const sample = (isOwned: boolean): Subject => ({
  title: isOwned ? "tables with an owner" : "tables without an owner",
  isOwned,
  tables: sampleTables({ isOwned }),
  provided: [],
  harms: { ...SAMPLE_HARMS, ...ODD },
  fill: claimSamples,
  change: (ruleset, isWanted) => ruleset.claim("next", isWanted ? sampleClaims(OWNERS + 1, 1) : []),
  replaced: {
    chain: "inet drawbridge forward",
    set: "frontends",
    rule: "ip daddr . tcp sport @frontends counter drop",
  },
});

const PROVIDED: Subject = {
  title: "objects that come and go",
  isOwned: false,
  tables: [profileTable()],
  provided: Array.from({ length: PROFILES }, (_, number) => profileSets(number)).flat(),
  harms: PROFILE_HARMS,
  fill: (ruleset) => provideJudged(ruleset, [0, PROFILES]),
  change: (ruleset, isWanted) => (isWanted ? provideJudged : withdrawJudged)(ruleset, [PROFILES, PROFILES + 1]),
  replaced: { chain: `${where} second2`, set: "ports2", rule: "ip daddr . tcp dport @ports3 counter return" },
};

for (const { title, isOwned, tables, provided, harms, fill, change, replaced } of [
  sample(false),
  sample(true),
  PROVIDED,
]) {
  describe(`policyd/ruleset: harm to ${title}`, () => {
    let lab: Lab | undefined;
    let node: LabNamespace;
    let events: KernelNotifications | undefined;
    let writer: NftablesSocket;
    let watch: RulesetWatch | undefined;
    let ruleset: Ruleset | undefined;

    before(async function () {
      lab = suiteLab(this, "harm");
      node = lab.namespace("node");
      const portId = randomInt(2 ** 30, 2 ** 31);
      writer = node.inside(() => new NftablesSocket(node.calls, portId));
      events = node.notifications();
      const logger = recordingLogger();
      ruleset = rulesetOver(writer, tables, { clock: realClock, logger });
      fill(ruleset);
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

    const content = (): string => tables.map((table) => contentOf(writer, table, provided)).join("\n");

    it(`DP-09: each kind of harm to ${title} ${isOwned ? "is refused" : "is repaired in under a second and counted, and the next change is not blocked"}`, async function () {
      this.timeout(120_000);
      assert.ok(ruleset !== undefined);
      const whole = content();
      const listing = node.ruleset();
      for (const [what, text] of Object.entries(harms)) {
        const before = ruleset.status();
        const isForeign = what === FOREIGN_DROP;
        const isRefused = isOwned && !isForeign && what !== "flush ruleset";
        if (isRefused) assert.throws(() => node.exec("nft", ["-f", "-"], text), /not permitted/, what);
        else node.exec("nft", ["-f", "-"], text);
        const isRepaired = (): boolean =>
          contentNow(content) === whole && (isOwned || isForeign || (ruleset?.status().repairs ?? 0) > before.repairs);
        await until(isRepaired, what, REPAIR_MILLISECONDS);
        if (isForeign) {
          assert.match(node.exec("nft", ["list", "table", "inet", "stranger"]), /policy drop/, what);
          node.exec("nft", ["delete", "table", "inet", "stranger"]);
        }
        if (isOwned) assert.equal(ruleset.status().repairs, 0, what);
        if (what in ODD)
          assert.equal(ruleset.status().replacements, before.replacements, `${what}: a table was replaced`);
        for (const isWanted of [true, false]) {
          change(ruleset, isWanted);
          assert.equal(ruleset.flush(), true, `${what}: ${ruleset.status().lastError}`);
        }
      }
      assert.equal(ruleset.status().failures, 0, ruleset.status().lastError);
      assert.equal(node.ruleset().length, listing.length);
    });

    if (isOwned) {
      it("the tables are adopted by the next daemon, for which the kernel then protects them (DP-06)", () => {
        ruleset?.stop();
        writer.close();
        const element = ["add", "element", "inet", "drawbridge", "frontends", "{ 192.0.2.1 . 80 }"];
        node.exec("nft", element);
        const next = node.inside(() => new NftablesSocket(node.calls));
        const heir = rulesetOver(next, tables, { clock: realClock });
        fill(heir);
        heir.start();
        assert.deepEqual([heir.status().isReconciled, heir.status().replacements], [true, 0], heir.status().lastError);
        assert.throws(() => node.exec("nft", element), /not permitted/);
        assert.equal(node.ruleset().includes("192.0.2.1"), false, "undesired elements are removed");
        heir.stop();
        next.close();
      });
    }

    if (!isOwned) {
      it(`DP-09: a rule of ${title} that was replaced by one of the same shape is noticed`, async () => {
        assert.ok(ruleset !== undefined);
        const whole = content();
        const { repairs } = ruleset.status();
        const handle = new RegExp(`@${replaced.set} .*# handle (\\d+)`).exec(node.ruleset("-a"))?.[1] ?? "";
        node.exec("nft", [`replace rule ${replaced.chain} handle ${handle} ${replaced.rule}`]);
        const isRepaired = (): boolean => contentNow(content) === whole && ruleset?.status().repairs !== repairs;
        await until(isRepaired, "repaired", REPAIR_MILLISECONDS);
      });

      it("the listed ruleset loads unchanged in a fresh namespace (HOSTILE-01)", () => {
        const fresh = lab?.namespace("fresh");
        const listing = node.ruleset();
        fresh?.exec("nft", ["-f", "-"], listing);
        assert.equal(fresh?.ruleset(), listing);
      });
    }
  });
}

/** Returns the content; undefined while a table or a set is missing. */
function contentNow(content: () => string): string | undefined {
  try {
    return content();
  } catch (error) {
    if (error instanceof NetlinkError) return undefined;
    throw error;
  }
}

import assert from "node:assert/strict";
import { randomInt } from "node:crypto";
import type { KernelNotifications } from "../../kernel/notifications/notifications.ts";
import { startNotificationThread } from "../../kernel/notifications/thread.ts";
import { NetlinkError } from "../../kernel/netlink/error.ts";
import { NftablesSocket } from "../../kernel/nftables/socket.ts";
import type { Table } from "../../kernel/nftables/model/object.ts";
import { realClock } from "../../policyd/lib/clock.ts";
import { Ruleset } from "../../policyd/ruleset/ruleset.ts";
import { RulesetWatch } from "../../policyd/ruleset/ruleset_watch.ts";
import { recordingLogger } from "../support/recording_logger.ts";
import { createLab, type Lab } from "../lab/lab.ts";
import type { LabNamespace } from "../lab/namespace.ts";
import { sampleClaims, sampleTables } from "../support/ruleset/sample.ts";
import { contentOf } from "../support/ruleset/content.ts";
import { requireKernel } from "../support/privilege.ts";
import { until } from "../support/until.ts";

const REPAIR_MILLISECONDS = 1000;
const OWNERS = 20;

/** Changes that another program can make to our tables with nft. `drop` does nothing to them and must stay. */
const harms = {
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
  "foreign chain": "add chain inet drawbridge stranger",
  "foreign table with drop":
    "add table inet stranger; add chain inet stranger c { type filter hook forward priority -100; policy drop; }",
} as const;

const harmNames = Object.keys(harms).filter((name): name is keyof typeof harms => Object.hasOwn(harms, name));

for (const isOwned of [false, true]) {
  describe(`policyd/ruleset harm with tableOwner ${isOwned ? "on" : "off"}`, () => {
    let lab: Lab | undefined;
    let node: LabNamespace;
    let events: KernelNotifications | undefined;
    let writer: NftablesSocket;
    let watch: RulesetWatch | undefined;
    let ruleset: Ruleset | undefined;
    const tables: readonly Table[] = sampleTables({ isOwned });

    before(async function () {
      requireKernel(this);
      lab = createLab(isOwned ? "harm-owned" : "harm");
      node = lab.namespace("node");
      const portId = randomInt(2 ** 30, 2 ** 31);
      writer = node.inside(() => new NftablesSocket(node.calls, portId));
      events = startNotificationThread({ calls: node.calls, namespacePath: node.path });
      const logger = recordingLogger();
      ruleset = new Ruleset({
        kernel: writer,
        clock: realClock,
        logger,
        tables,
        minSyncPeriod: 0,
        syncPeriod: 3_600_000,
      });
      for (let i = 1; i <= OWNERS; i++) ruleset.claim(`o${i}`, sampleClaims(i, i));
      watch = new RulesetWatch({ ruleset, clock: realClock, logger, portId });
      await watch.start(events);
      ruleset.start();
    });
    after(async () => {
      watch?.stop();
      ruleset?.stop();
      await events?.stop();
      lab?.destroy();
    });

    it(`${isOwned ? "does no damage" : "is repaired in under a second and counted"} after each kind of harm (DP-09)`, async function () {
      this.timeout(120_000);
      assert.ok(ruleset !== undefined);
      const whole = tables.map((table) => contentOf(writer, table));
      const listing = node.ruleset();
      for (const what of harmNames) {
        const before = ruleset.status();
        const isForeign = what === "foreign table with drop";
        const isRefused = isOwned && !isForeign && what !== "flush ruleset";
        if (isRefused) assert.throws(() => node.exec("nft", ["-f", "-"], harms[what]), /not permitted/, what);
        else node.exec("nft", ["-f", "-"], harms[what]);
        const isRepaired = (): boolean =>
          tables.every((table, index) => readContent(writer, table) === whole[index]) &&
          (isOwned || isForeign || (ruleset?.status().repairs ?? 0) > before.repairs);
        await until(isRepaired, what, REPAIR_MILLISECONDS);
        if (isForeign) {
          assert.match(node.exec("nft", ["list", "table", "inet", "stranger"]), /policy drop/, what);
          node.exec("nft", ["delete", "table", "inet", "stranger"]);
        }
        if (isOwned) assert.equal(ruleset.status().repairs, 0, what);
      }
      assert.equal(node.ruleset().length, listing.length);
    });

    if (isOwned) {
      it("the tables are adopted by the next daemon, for which the kernel then protects them (DP-06)", () => {
        ruleset?.stop();
        writer.close();
        const element = ["add", "element", "inet", "drawbridge", "frontends", "{ 192.0.2.1 . 80 }"];
        node.exec("nft", element);
        const next = node.inside(() => new NftablesSocket(node.calls));
        const options = {
          clock: realClock,
          logger: recordingLogger(),
          tables,
          minSyncPeriod: 0,
          syncPeriod: 3_600_000,
        };
        const heir = new Ruleset({ ...options, kernel: next });
        for (let i = 1; i <= OWNERS; i++) heir.claim(`o${i}`, sampleClaims(i, i));
        heir.start();
        assert.deepEqual([heir.status().isReconciled, heir.status().replacements], [true, 0], heir.status().lastError);
        assert.throws(() => node.exec("nft", element), /not permitted/);
        assert.equal(node.ruleset().includes("192.0.2.1"), false, "undesired elements are removed");
        heir.stop();
        next.close();
      });
    }

    if (!isOwned) {
      it("a rule that was replaced by one of the same shape is noticed (DP-09)", async () => {
        const [table] = tables;
        assert.ok(table !== undefined && ruleset !== undefined);
        const whole = contentOf(writer, table);
        const { repairs } = ruleset.status();
        const rule = "ip daddr . tcp sport @frontends counter drop";
        const handle = /@frontends .*# handle (\d+)/.exec(node.ruleset("-a"))?.[1] ?? "";
        node.exec("nft", [`replace rule inet drawbridge forward handle ${handle} ${rule}`]);
        const isRepaired = (): boolean => readContent(writer, table) === whole && ruleset?.status().repairs !== repairs;
        await until(isRepaired, "repaired", REPAIR_MILLISECONDS);
      });

      it("the listed ruleset loads unchanged in a fresh namespace (DP-10)", () => {
        const fresh = lab?.namespace("fresh");
        const listing = node.ruleset();
        fresh?.exec("nft", ["-f", "-"], listing);
        assert.equal(fresh?.ruleset(), listing);
      });
    }
  });
}

/** Returns the content of a table; undefined while a table or a set is missing. */
function readContent(kernel: NftablesSocket, table: Table): string | undefined {
  try {
    return contentOf(kernel, table);
  } catch (error) {
    if (error instanceof NetlinkError) return undefined;
    throw error;
  }
}

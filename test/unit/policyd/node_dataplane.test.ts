import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { AttachmentRecord } from "../../../ipam/attachment.ts";
import { DrawbridgeError } from "../../../kernel/error.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { FakeNftables } from "../../../kernel/nftables/fake_nftables.ts";
import type { AttachmentFollower } from "../../../policyd/attachments/follower.ts";
import { LinkRemoval } from "../../../policyd/attachments/link_removal.ts";
import { AttachmentRegistry } from "../../../policyd/attachments/registry.ts";
import { FakeClock } from "../../../policyd/clock.ts";
import { Daemon } from "../../../policyd/daemon.ts";
import { Ruleset } from "../../../policyd/dataplane/ruleset.ts";
import { RulesetWatch } from "../../../policyd/dataplane/ruleset_watch.ts";
import { withVersion } from "../../../policyd/dataplane/schema.ts";
import { recordingNotices } from "../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../policyd/log/recording_logger.ts";
import { NodeDataplane } from "../../../policyd/node/node_dataplane.ts";
import { nodeTables } from "../../../policyd/node/tables.ts";
import { attachmentRecord } from "../../support/attachment_record.ts";
import { NODE_CONFIGURATION } from "../../support/guard/guarded_node.ts";

/** Tells that rules are in force only when it may. */
class HeldRuleset extends Ruleset {
  held: () => Promise<void> | undefined = () => undefined;

  override async inForce(): Promise<boolean> {
    const isInForce = await super.inForce();
    await this.held();
    return isInForce;
  }
}

/** A daemon on a kernel in memory, with the names of the attachments that are really there. */
function setUp(records: readonly AttachmentRecord[] = [], { isFollowed = false } = {}) {
  const kernel = new FakeNftables();
  const clock = new FakeClock();
  const logger = recordingLogger();
  const tables = nodeTables(NODE_CONFIGURATION).map(withVersion);
  const ruleset = new HeldRuleset({ kernel, clock, logger, tables, minSyncPeriod: 1000, syncPeriod: 30_000 });
  const attachments = new AttachmentRegistry();
  for (const record of records) attachments.add(record);
  const journal: string[] = [];
  /** What is begun with the daemon and with its objects. */
  const begun: string[] = [];
  const absent = new Set<string>();
  const unlinked = new Set<string>();
  const gates = new Map<string, Promise<void>>();
  /** Holds up the next who waits for something. @returns lets him go on */
  const hold = (what: string): (() => void) => {
    const { promise, resolve } = Promise.withResolvers<void>();
    gates.set(what, promise);
    return resolve;
  };
  const gateOf = (what: string): Promise<void> | undefined => {
    const gate = gates.get(what);
    gates.delete(what);
    return gate;
  };
  ruleset.held = () => gateOf("rules");
  const preparation = Promise.withResolvers<void>();
  const inForce = Promise.withResolvers<void>();
  const follower: AttachmentFollower = {
    prepared: () => preparation.promise,
    attached: ({ containerId }) => void journal.push(`attached ${containerId}`),
    inForce: async () => {
      await inForce.promise;
      await gateOf("policies");
    },
    detached: ({ containerId }) => void journal.push(`detached ${containerId}`),
  };
  const dataplane = new NodeDataplane({
    ruleset,
    watch: new RulesetWatch({ ruleset, clock, logger, portId: 1 }),
    startEvents: () => {
      begun.push("events");
      return {
        subscribe: () => Promise.reject(new DrawbridgeError("ERR_UNAVAILABLE", "none here")),
        stop: () => Promise.resolve(),
      };
    },
    prepare: () => {
      begun.push("preparation");
      return () => void begun.push("end of preparation");
    },
    onObjects: () => void begun.push("objects"),
    links: new LinkRemoval({
      batch: (requests) => requests.map((request) => ({ request, error: undefined, messages: [] })),
      inBackground: (request) => {
        if (request.operation.startsWith("delete")) journal.push("link");
        return Promise.resolve({ request, error: undefined, messages: [] });
      },
    }),
    flows: {
      forgetOf: ({ containerId }) => void journal.push(`forget of ${containerId}, ${published().length} published`),
      forgetPod: async ({ containerId }) => {
        journal.push(`forget ${containerId}, ${published().length} published`);
        await gateOf(`flows of ${containerId}`);
        if (containerId === "silent") throw new DrawbridgeError("ERR_NETLINK", "no answer");
      },
    },
    isPresent: ({ containerId }) => !absent.has(containerId),
    hasLink: ({ containerId }) => !unlinked.has(containerId),
    logger,
    attachments,
    furtherElements: () => [],
    follower: isFollowed ? follower : undefined,
  });
  const source = { start: () => {}, stop: () => {}, problems: () => [], find: () => undefined, count: () => 0 };
  const parts = {
    version: "1",
    nodeName: "n",
    source,
    attachments,
    dataplanes: [dataplane],
    logger,
    events: recordingNotices(),
    clock,
  };
  /** Whose ports are published: the comments of what leads to IPv4 addresses. */
  const published = (): readonly string[] => commentsIn("ports4");
  const commentsIn = (name: string): readonly string[] =>
    tables.flatMap((table) =>
      table.sets
        .filter((set) => set.name === name)
        .flatMap((set) => kernel.elements(table, set).map(({ comment }) => comment ?? "")),
    );
  const policies = { prepared: preparation.resolve, inForce: inForce.resolve };
  const daemon = new Daemon(parts);
  return {
    daemon,
    clock,
    attachments,
    journal,
    begun,
    absent,
    unlinked,
    hold,
    logger,
    published,
    commentsIn,
    policies,
  };
}

function pod(containerId: string, changes: Partial<AttachmentRecord> = {}): AttachmentRecord {
  const [number = 0] = new TextEncoder().encode(containerId);
  return attachmentRecord({
    containerId,
    pod: { namespace: "n", name: containerId, uid: "u" },
    addresses: [parseCidr(`10.244.1.${number}/32`)],
    hostInterface: `dbv${containerId}`,
    portMappings: [{ hostPort: 53, containerPort: 53, protocol: "udp" }],
    policyd: { serviceCidrs: [parseCidr(`10.96.0.0/${number % 16}`)], nonMasqueradeCidrs: [] },
    ...changes,
  });
}

describe("policyd/node dataplane", () => {
  it("R6: a port that is taken is refused for good, and nothing is kept of who wanted it", async () => {
    const { daemon, attachments, published } = setUp();
    daemon.synced();
    await daemon.register(pod("a"));
    await assert.rejects(daemon.register(pod("b")), { code: "ERR_HOST_PORT_TAKEN", message: /held by n\/a a;/ });
    assert.deepEqual([attachments.size, published()], [1, ["n/a"]]);
    await daemon.unregister(pod("b"));
    assert.deepEqual(published(), ["n/a"]);
    await daemon.unregister(pod("a"));
    await daemon.register(pod("b"));
    assert.deepEqual([attachments.size, published()], [1, ["n/b"]]);
  });

  it("API-20: what needs no objects is begun before they come, once, and ends before the first batch", async () => {
    const { daemon, begun, policies, published } = setUp([pod("a")], { isFollowed: true });
    daemon.start();
    assert.deepEqual(begun, ["events", "preparation"]);
    daemon.synced();
    await turn();
    assert.deepEqual([begun.splice(0), published()], [["events", "preparation", "objects"], []]);
    policies.prepared();
    await turn();
    assert.deepEqual([begun, published()], [["end of preparation"], ["n/a"]]);
    await daemon.stop();
  });

  it("R6: of those that came before the first sync the first has it", async () => {
    const { daemon, published, commentsIn } = setUp([pod("z")]);
    const asked = [pod("a"), pod("b", { portMappings: [] })].map((record) => daemon.register(record));
    const outcomes = Promise.allSettled(asked);
    daemon.synced();
    assert.deepEqual(
      (await outcomes).map(({ status }) => status),
      ["rejected", "fulfilled"],
    );
    assert.deepEqual(published(), ["n/z"]);
    assert.ok(!commentsIn("podmac").includes("n/a"), "no trace of the one that was refused");
  });

  it("REG-01: what was unregistered while it waited for the first sync is not put in force", async () => {
    const { daemon, commentsIn, published } = setUp();
    const registered = daemon.register(pod("a"));
    await Promise.all([
      assert.rejects(registered, { code: "ERR_UNAVAILABLE" }),
      // What an earlier daemon has left in force is the plugin's to take back.
      assert
        .rejects(daemon.unregister(pod("a")), { message: /its rules stay: nothing is written before all objects/ })
        .then(() => daemon.synced()),
    ]);
    await turn();
    assert.deepEqual([published(), commentsIn("podmac")], [[], []]);
  });

  it("REG-01: what was unregistered while it waited for the first sync takes nothing from the next", async () => {
    const { daemon, attachments, commentsIn } = setUp();
    const [next, other] = [pod("b", { addresses: pod("a").addresses }), pod("a")];
    const refused = assert.rejects(daemon.register(other), { code: "ERR_UNAVAILABLE" });
    await assert.rejects(daemon.unregister(other), { message: /its rules stay/ });
    const registered = daemon.register(next);
    daemon.synced();
    await Promise.all([refused, registered]);
    assert.deepEqual([[...attachments.values()], commentsIn("podmac")], [[next], ["n/b"]]);
  });

  for (const { place, what, earlier } of [
    { place: "the rules of who had its address", what: "rules", earlier: ["old"] },
    { place: "the flows of who had its address", what: "flows of old", earlier: ["old"] },
    { place: "its own rules", what: "rules", earlier: [] },
    { place: "its policies", what: "policies", earlier: [] },
  ]) {
    it(`REG-01: what is unregistered while it waits for ${place} is refused, and nothing of it comes back`, async () => {
      const records = earlier.map((name) => pod(name, { addresses: pod("a").addresses }));
      const { daemon, clock, attachments, journal, hold, published, commentsIn, policies } = setUp(records, {
        isFollowed: true,
      });
      policies.prepared();
      policies.inForce();
      daemon.synced();
      await turn();
      const [goOn, forget] = [hold(what), hold("flows of a")];
      let outcome = "none";
      const registered = daemon.register(pod("a")).then(
        () => (outcome = "registered"),
        (error: unknown) => (outcome = String(error)),
      );
      await turn();
      const unregistered = daemon.unregister(pod("a"));
      while (!journal.some((line) => line.startsWith("forget a"))) await turn();
      assert.equal(outcome, "none", "it waits where it is held up");
      goOn();
      await registered;
      assert.match(outcome, /removed before its rules were in force/);
      clock.pass(1000);
      forget();
      await unregistered;
      assert.deepEqual([attachments.size, published(), commentsIn("podmac")], [0, [], []]);
      assert.ok(journal.lastIndexOf("attached a") < journal.lastIndexOf("detached a"), journal.join());
    });
  }

  it("REG-01 POD-20: who asks again while a pod goes waits until nothing is left of it", async () => {
    const { daemon, journal, hold } = setUp();
    daemon.synced();
    await daemon.register(pod("a"));
    const forget = hold("flows of a");
    const first = daemon.unregister(pod("a"));
    while (!journal.some((line) => line.startsWith("forget a"))) await turn();
    let isDone = false;
    const second = daemon.unregister(pod("a")).then(() => (isDone = true));
    await turn();
    assert.equal(isDone, false);
    forget();
    await Promise.all([first, second]);
  });

  for (const { title, unlinked: gone, stays } of [
    { title: "that one's whose link is there", unlinked: ["a"], stays: "b" },
    { title: "the first's where both links are there", unlinked: [], stays: "a" },
    { title: "the first's where no link is there", unlinked: ["a", "b"], stays: "a" },
  ]) {
    it(`POL-09 REG-03: at the start the address of two records is ${title}`, async () => {
      const addresses = [...pod("a").addresses, parseCidr("fd00::1/128")];
      const records = [pod("a", { addresses }), pod("b", { addresses: pod("a").addresses }), pod("c")];
      const { daemon, attachments, journal, unlinked, commentsIn, policies } = setUp(records, { isFollowed: true });
      for (const name of gone) unlinked.add(name);
      policies.prepared();
      daemon.synced();
      await turn();
      const attached = journal.filter((line) => line.startsWith("attached"));
      assert.deepEqual(attached, [`attached ${stays}`, "attached c"]);
      assert.deepEqual([attachments.size, [...commentsIn("podmac")].sort()], [2, [`n/${stays}`, "n/c"]]);
    });
  }

  it("POD-20: who has the address of a pod whose DEL never came does not get its flows", async () => {
    const { daemon, journal, attachments } = setUp([pod("a")]);
    daemon.synced();
    await daemon.register(pod("b", { addresses: pod("a").addresses }));
    assert.deepEqual(journal, ["forget a, 0 published", "forget of b, 1 published"]);
    assert.deepEqual(
      [...attachments.values()].map(({ containerId }) => containerId),
      ["b"],
    );
  });

  it("R2: flows are forgotten when the rules that made them have changed: after it came, and after it went", async () => {
    const { daemon, journal } = setUp();
    daemon.synced();
    await daemon.register(pod("a"));
    await daemon.unregister(pod("a"));
    assert.deepEqual(journal, ["forget of a, 1 published", "link", "forget a, 0 published"]);
  });

  it("POD-20: a pod is forgotten even where the kernel does not answer about its flows, and the plugin told", async () => {
    const { daemon, attachments, logger } = setUp();
    daemon.synced();
    await daemon.register(pod("silent"));
    await assert.rejects(daemon.unregister(pod("silent")), { code: "ERR_UNAVAILABLE", message: /its flows stay/ });
    assert.equal(attachments.size, 0);
    assert.match(logger.lines.map(({ message }) => message).join(), /flows of a pod that has gone are not forgotten/);
  });

  for (const [title, order] of [
    ["the first that goes", ["a", "b"]],
    ["the last that goes", ["b", "a"]],
  ] as const) {
    it(`R7: of two records with one port the other has it after ${title}`, async () => {
      const { daemon, published, commentsIn, logger } = setUp([pod("a"), pod("b")]);
      daemon.synced();
      await turn();
      // Their ranges overlap: the kernel would refuse the batch that has both.
      assert.deepEqual([published(), commentsIn("exceptions4"), commentsIn("podmac").length], [["n/a"], ["n/a"], 2]);
      assert.match(logger.lines.map(({ message }) => message).join(), /host ports and masquerade are not in force/);
      const [gone, stays] = order;
      await daemon.unregister(pod(gone));
      assert.deepEqual([published(), commentsIn("exceptions4")], [[`n/${stays}`], [`n/${stays}`]]);
    });
  }

  it("R7: one that is gone without a DEL holds its port no longer than until the next wants it", async () => {
    const { daemon, attachments, absent, published } = setUp([pod("a")]);
    daemon.synced();
    await assert.rejects(daemon.register(pod("b")), { code: "ERR_HOST_PORT_TAKEN" });
    absent.add("a");
    await daemon.register(pod("b"));
    assert.deepEqual([attachments.size, published()], [1, ["n/b"]]);
  });

  it("POL-09: nothing is written before policies are worked out, and ADD waits until they are in force", async () => {
    const { daemon, commentsIn, policies } = setUp([pod("z")], { isFollowed: true });
    let isRegistered = false;
    const registered = daemon.register(pod("a", { portMappings: [] })).then(() => (isRegistered = true));
    daemon.synced();
    await turn();
    assert.deepEqual(commentsIn("podmac"), []);
    policies.prepared();
    await turn();
    assert.deepEqual([[...commentsIn("podmac")].sort(), isRegistered], [["n/a", "n/z"], false]);
    policies.inForce();
    await registered;
  });

  it("POL-09 R6: policies are told of pods that are there, and of none that is refused", async () => {
    const { daemon, journal, policies } = setUp([pod("z")], { isFollowed: true });
    policies.prepared();
    policies.inForce();
    daemon.synced();
    await assert.rejects(daemon.register(pod("a")), { code: "ERR_HOST_PORT_TAKEN" });
    assert.deepEqual(journal, ["attached z"]);
  });

  it("POL-09 POD-20: a pod's link goes before its policies, and they before its flows are forgotten", async () => {
    const { daemon, journal, policies } = setUp([], { isFollowed: true });
    policies.prepared();
    policies.inForce();
    daemon.synced();
    await daemon.register(pod("a"));
    await daemon.unregister(pod("a"));
    const order = ["attached a", "forget of a, 1 published", "link", "detached a", "forget a, 0 published"];
    assert.deepEqual(journal, order);
  });

  it("POL-28: the policies of a pod whose DEL never came go when another has its address", async () => {
    const { daemon, journal, policies } = setUp([pod("a")], { isFollowed: true });
    policies.prepared();
    policies.inForce();
    daemon.synced();
    await daemon.register(pod("b", { addresses: pod("a").addresses, portMappings: [] }));
    assert.deepEqual(
      journal.filter((line) => /^(attached|detached)/.test(line)),
      ["attached a", "detached a", "attached b"],
    );
  });
});

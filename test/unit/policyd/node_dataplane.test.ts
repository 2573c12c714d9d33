import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { AttachmentRecord } from "../../../cni/attachment/attachment.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { heldDaemon, podRecord } from "../../support/node/held_daemon.ts";

describe("policyd/node dataplane", () => {
  it("R6: a port that is taken is refused for good, and nothing is kept of who wanted it", async () => {
    const { daemon, attachments, published } = heldDaemon();
    daemon.synced();
    await daemon.register(podRecord("a"));
    await assert.rejects(daemon.register(podRecord("b")), { code: "ERR_HOST_PORT_TAKEN", message: /held by n\/a a;/ });
    assert.deepEqual([attachments.size, published()], [1, ["n/a"]]);
    await daemon.unregister(podRecord("b"));
    assert.deepEqual(published(), ["n/a"]);
    await daemon.unregister(podRecord("a"));
    await daemon.register(podRecord("b"));
    assert.deepEqual([attachments.size, published()], [1, ["n/b"]]);
  });

  it("API-20: what needs no objects is begun before they come, once, and ends before the first batch", async () => {
    const { daemon, begun, policies, published } = heldDaemon([podRecord("a")], { isFollowed: true });
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
    const { daemon, published, commentsIn } = heldDaemon([podRecord("z")]);
    const asked = [podRecord("a"), podRecord("b", { portMappings: [] })].map((record) => daemon.register(record));
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
    const { daemon, commentsIn, published } = heldDaemon();
    const registered = daemon.register(podRecord("a"));
    await Promise.all([
      assert.rejects(registered, { code: "ERR_UNAVAILABLE" }),
      // What an earlier daemon has left in force is the plugin's to take back.
      assert
        .rejects(daemon.unregister(podRecord("a")), {
          message: /its rules stay: nothing is written before all objects/,
        })
        .then(() => daemon.synced()),
    ]);
    await turn();
    assert.deepEqual([published(), commentsIn("podmac")], [[], []]);
  });

  it("API-18: what is unregistered before the first sync waits no longer, however long there is none", async () => {
    const { daemon } = heldDaemon();
    let isSettled = false;
    const settle = (): void => {
      isSettled = true;
    };
    void daemon.register(podRecord("a")).then(settle, settle);
    await turn();
    assert.ok(!isSettled);
    await assert.rejects(daemon.unregister(podRecord("a")), { message: /its rules stay/ });
    await turn();
    assert.ok(isSettled, "it would be kept for as long as the API server is away");
  });

  it("REG-01: what was unregistered while it waited for the first sync takes nothing from the next", async () => {
    const { daemon, attachments, commentsIn } = heldDaemon();
    const [next, other] = [podRecord("b", { addresses: podRecord("a").addresses }), podRecord("a")];
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
      const records = earlier.map((name) => podRecord(name, { addresses: podRecord("a").addresses }));
      const { daemon, clock, attachments, journal, hold, published, commentsIn, policies } = heldDaemon(records, {
        isFollowed: true,
      });
      policies.prepared();
      policies.inForce();
      daemon.synced();
      await turn();
      const [goOn, forget] = [hold(what), hold("flows of a")];
      let outcome = "none";
      const registered = daemon.register(podRecord("a")).then(
        () => (outcome = "registered"),
        (error: unknown) => (outcome = String(error)),
      );
      await turn();
      const unregistered = daemon.unregister(podRecord("a"));
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
    const { daemon, journal, hold } = heldDaemon();
    daemon.synced();
    await daemon.register(podRecord("a"));
    const forget = hold("flows of a");
    const first = daemon.unregister(podRecord("a"));
    while (!journal.some((line) => line.startsWith("forget a"))) await turn();
    let isDone = false;
    const second = daemon.unregister(podRecord("a")).then(() => (isDone = true));
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
      const addresses = [...podRecord("a").addresses, parseCidr("fd00::1/128")];
      const records = [
        podRecord("a", { addresses }),
        podRecord("b", { addresses: podRecord("a").addresses }),
        podRecord("c"),
      ];
      const { daemon, attachments, journal, unlinked, commentsIn, policies } = heldDaemon(records, {
        isFollowed: true,
      });
      for (const name of gone) unlinked.add(name);
      policies.prepared();
      daemon.synced();
      await turn();
      const attached = journal.filter((line) => line.startsWith("attached"));
      assert.deepEqual(attached, [`attached ${stays}`, "attached c"]);
      assert.deepEqual([attachments.size, [...commentsIn("podmac")].sort()], [2, [`n/${stays}`, "n/c"]]);
    });
  }

  it("REG-01: a pod whose DEL found no daemon and ended after the records were read is none at the start", async () => {
    const { daemon, attachments, absent, journal, published, commentsIn, policies } = heldDaemon(
      [podRecord("a"), podRecord("b", { portMappings: [] })],
      { isFollowed: true },
    );
    policies.prepared();
    absent.add("a");
    daemon.synced();
    await turn();
    assert.deepEqual([attachments.size, published(), commentsIn("podmac")], [1, [], ["n/b"]]);
    assert.ok(!journal.includes("attached a"), journal.join());
  });

  it("POD-20: who has the address of a pod whose DEL never came does not get its flows", async () => {
    const { daemon, journal, attachments } = heldDaemon([podRecord("a")]);
    daemon.synced();
    await daemon.register(podRecord("b", { addresses: podRecord("a").addresses }));
    assert.deepEqual(journal, ["end of bypass a, n/a", "forget a, 0 published", "forget of b, 1 published"]);
    assert.deepEqual(
      [...attachments.values()].map(({ containerId }) => containerId),
      ["b"],
    );
  });

  it("POL-85 POD-20: its follower is told which pods that come and go have no flows", async () => {
    const plain = (name: string, addressed = name): AttachmentRecord =>
      podRecord(name, { addresses: podRecord(addressed).addresses, portMappings: [] });
    const { daemon, clock, flowsTold, policies } = heldDaemon([plain("a")], { isFollowed: true });
    const told = (): readonly string[] => flowsTold.splice(0);
    policies.prepared();
    policies.inForce();
    daemon.synced();
    await turn();
    assert.deepEqual(told(), ["attached a: unknown"], "at the start");
    for (const [when, milliseconds, flows, before] of [
      ["at first", 0, "none", []],
      ["a moment after another had its address", 999, "unknown", []],
      ["later", 1000, "none", ["forget 10.244.1.98 once more"]],
    ] as const) {
      clock.pass(milliseconds);
      await turn();
      await daemon.register(plain("b"));
      await daemon.unregister(plain("b"));
      assert.deepEqual(told(), [...before, `attached b: ${flows}`, "detached b: none"], when);
    }
    await daemon.register(plain("c", "a"));
    assert.deepEqual(told(), ["detached a: unknown", "attached c: unknown"], "for one whose DEL never came");
  });

  it("R2: flows are forgotten when the rules that made them have changed: after it came, and after it went", async () => {
    const { daemon, journal } = heldDaemon();
    daemon.synced();
    await daemon.register(podRecord("a"));
    await daemon.unregister(podRecord("a"));
    assert.deepEqual(journal, ["forget of a, 1 published", "link", "forget a, 0 published"]);
  });

  it("POD-20: a pod is forgotten even where the kernel does not answer about its flows, and the plugin told", async () => {
    const { daemon, attachments, logger } = heldDaemon();
    daemon.synced();
    await daemon.register(podRecord("silent"));
    await assert.rejects(daemon.unregister(podRecord("silent")), {
      code: "ERR_UNAVAILABLE",
      message: /its flows stay/,
    });
    assert.equal(attachments.size, 0);
    assert.match(logger.lines.map(({ message }) => message).join(), /flows of a pod that has gone are not forgotten/);
  });

  for (const [title, order] of [
    ["the first that goes", ["a", "b"]],
    ["the last that goes", ["b", "a"]],
  ] as const) {
    it(`R7: of two records with one port the other has it after ${title}`, async () => {
      const { daemon, published, commentsIn, logger } = heldDaemon([podRecord("a"), podRecord("b")]);
      daemon.synced();
      await turn();
      // Their ranges overlap: the kernel would refuse the batch that has both.
      assert.deepEqual([published(), commentsIn("exceptions4"), commentsIn("podmac").length], [["n/a"], ["n/a"], 2]);
      assert.match(logger.lines.map(({ message }) => message).join(), /host ports and masquerade are not in force/);
      const [gone, stays] = order;
      await daemon.unregister(podRecord(gone));
      assert.deepEqual([published(), commentsIn("exceptions4")], [[`n/${stays}`], [`n/${stays}`]]);
    });
  }

  it("R7: one that is gone without a DEL holds its port no longer than until the next wants it", async () => {
    const { daemon, attachments, absent, published } = heldDaemon([podRecord("a")]);
    daemon.synced();
    await assert.rejects(daemon.register(podRecord("b")), { code: "ERR_HOST_PORT_TAKEN" });
    absent.add("a");
    await daemon.register(podRecord("b"));
    assert.deepEqual([attachments.size, published()], [1, ["n/b"]]);
  });

  it("POL-09: nothing is written before policies are worked out, and ADD waits until they are in force", async () => {
    const { daemon, commentsIn, policies } = heldDaemon([podRecord("z")], { isFollowed: true });
    let isRegistered = false;
    const registered = daemon.register(podRecord("a", { portMappings: [] })).then(() => (isRegistered = true));
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
    const { daemon, journal, policies } = heldDaemon([podRecord("z")], { isFollowed: true });
    policies.prepared();
    policies.inForce();
    daemon.synced();
    await assert.rejects(daemon.register(podRecord("a")), { code: "ERR_HOST_PORT_TAKEN" });
    assert.deepEqual(journal, ["attached z"]);
  });

  it("POL-09 POD-20: a pod's link goes before its policies, and they before its flows are forgotten", async () => {
    const { daemon, journal, policies } = heldDaemon([], { isFollowed: true });
    policies.prepared();
    policies.inForce();
    daemon.synced();
    await daemon.register(podRecord("a"));
    await daemon.unregister(podRecord("a"));
    const order = ["attached a", "forget of a, 1 published", "link", "detached a", "forget a, 0 published"];
    assert.deepEqual(journal, order);
  });

  it("GUARD-01: who has lost its address to another goes around the bridge no more before the other's rules are there", async () => {
    const { daemon, journal, commentsIn } = heldDaemon([podRecord("a")]);
    daemon.synced();
    await turn();
    const heir = { addresses: podRecord("a").addresses, portMappings: [] };
    await daemon.register(podRecord("b", heir));
    assert.ok(journal.includes("end of bypass a, n/a"), journal.join("\n"));
    assert.deepEqual(commentsIn("podmac"), ["n/b"]);
  });

  it("GUARD-01: nobody gets an address while the former pod still goes around the bridge with it", async () => {
    const { daemon, commentsIn } = heldDaemon([podRecord("stubborn")]);
    daemon.synced();
    await turn();
    const heir = { addresses: podRecord("stubborn").addresses, portMappings: [] };
    await assert.rejects(daemon.register(podRecord("b", heir)), { code: "ERR_NETLINK" });
    assert.deepEqual(commentsIn("podmac"), ["n/stubborn"]);
  });

  it("POL-28: the policies of a pod whose DEL never came go when another has its address", async () => {
    const { daemon, journal, policies } = heldDaemon([podRecord("a")], { isFollowed: true });
    policies.prepared();
    policies.inForce();
    daemon.synced();
    await daemon.register(podRecord("b", { addresses: podRecord("a").addresses, portMappings: [] }));
    assert.deepEqual(
      journal.filter((line) => /^(attached|detached)/.test(line)),
      ["attached a", "detached a", "attached b"],
    );
  });
});

import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { heldDaemon, podRecord } from "../../../support/node/held_daemon.ts";

describe("policyd/node: rules of attachments", () => {
  it("API-18: work that needs no objects begins once before they come, and ends before the first batch", async () => {
    const { daemon, begun, policies, published } = heldDaemon([podRecord("a")], { isFollowed: true });
    daemon.start();
    assert.deepEqual(begun, ["events"]);
    daemon.synced();
    await turn();
    assert.deepEqual([begun.splice(0), published()], [["events", "objects"], []]);
    policies.prepared();
    await turn();
    assert.deepEqual([begun, published()], [[], ["n/a"]]);
    await daemon.stop();
  });

  it("REG-01: a pod that is unregistered while it waits for the first sync is not put in force", async () => {
    const { daemon, commentsIn, published } = heldDaemon();
    const registered = daemon.register(podRecord("a"));
    await Promise.all([
      assert.rejects(registered, { code: "ERR_UNAVAILABLE" }),
      // The plugin has to remove what an earlier daemon left in force.
      assert
        .rejects(daemon.unregister(podRecord("a")), {
          message: /its rules stay: nothing is written before all objects/,
        })
        .then(() => daemon.synced()),
    ]);
    await turn();
    assert.deepEqual([published(), commentsIn("podmac")], [[], []]);
  });

  it("API-18: a pod that is unregistered before the first sync does not wait for the sync", async () => {
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
    assert.ok(isSettled, "otherwise the registration would wait while the API server is away");
  });

  it("REG-01: a pod that is unregistered while it waits for the first sync takes no address from the next pod", async () => {
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
    { place: "the rules of the pod that had its address", what: "rules", earlier: ["old"] },
    { place: "the flows of the pod that had its address", what: "flows of old", earlier: ["old"] },
    { place: "its own rules", what: "rules", earlier: [] },
    { place: "its policies", what: "policies", earlier: [] },
  ]) {
    it(`REG-01: a pod that is unregistered while it waits for ${place} is refused and leaves no rules`, async () => {
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
      assert.equal(outcome, "none", "the registration waits");
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

  it("DEL-01 REG-02: a request to remove a pod leaves the link to the later attachment that has its names", async () => {
    const { daemon, attachments, journal, published, replaced } = heldDaemon([podRecord("a")]);
    daemon.synced();
    replaced.add("a");
    await assert.rejects(daemon.unregister(podRecord("a")), { code: "ERR_UNAVAILABLE", message: /the link stays/ });
    assert.deepEqual([attachments.size, published(), journal.includes("link")], [0, [], false]);
  });

  it("DEL-01 REG-01: a pod that registers under the names of one that is being removed keeps its rules", async () => {
    const { daemon, attachments, journal, commentsIn } = heldDaemon([podRecord("a")]);
    daemon.synced();
    const later = podRecord("a", { pod: { namespace: "n", name: "later", uid: "u" } });
    await Promise.all([daemon.unregister(podRecord("a")), daemon.register(later)]);
    assert.deepEqual([[...attachments.values()], commentsIn("podmac")], [[later], ["n/later"]]);
    assert.ok(journal.includes("link"));
  });

  it("REG-01: a pod gets the host port of a pod that is gone, and a pod that registers later under the names of the gone one is refused the port", async () => {
    const { daemon, absent, hold, published } = heldDaemon([podRecord("a"), podRecord("s", { portMappings: [] })]);
    daemon.synced();
    let questions = 0;
    // A daemon that asked for ever would hang the test.
    absent.has = (containerId) => containerId === "a" && questions++ < 9;
    const goOn = hold("rules");
    const later = daemon.register(podRecord("a", { addresses: podRecord("s").addresses }));
    await daemon.register(podRecord("b"));
    assert.deepEqual(published(), ["n/b"]);
    goOn();
    await assert.rejects(later, { code: "ERR_HOST_PORT_TAKEN" });
  });

  it("REG-01 POD-20: a second unregistration of a pod waits until nothing of the pod is left", async () => {
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
    { title: "that of the pod with a link", unlinked: ["a"], stays: "b" },
    { title: "the first pod's if both links exist", unlinked: [], stays: "a" },
    { title: "the first pod's if neither link exists", unlinked: ["a", "b"], stays: "a" },
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

  it("REG-01: a pod whose DEL found no daemon and ended after the records were read does not exist at the start", async () => {
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

  it("POL-84 POD-20: the follower learns which pods that come and go have no flows", async () => {
    const plain = (name: string, addressed = name): AttachmentRecord =>
      podRecord(name, { addresses: podRecord(addressed).addresses, portMappings: [] });
    const { daemon, clock, reportedFlows, policies } = heldDaemon([plain("a")], { isFollowed: true });
    const reported = (): readonly string[] => reportedFlows.splice(0);
    policies.prepared();
    policies.inForce();
    daemon.synced();
    await turn();
    assert.deepEqual(reported(), ["attached a: unknown"], "a pod that exists at the start");
    for (const [when, milliseconds, flows, before] of [
      ["at first", 0, "none", []],
      ["a moment after another had its address", 999, "unknown", []],
      ["later", 1000, "none", ["forget 10.244.1.98 once more"]],
    ] as const) {
      for (let half = 0; half < 2; half++) {
        clock.pass(milliseconds / 2);
        await turn();
      }
      await daemon.register(plain("b"));
      await daemon.unregister(plain("b"));
      assert.deepEqual(reported(), [...before, `attached b: ${flows}`, "detached b: none"], when);
    }
    await daemon.register(plain("c", "a"));
    assert.deepEqual(reported(), ["detached a: unknown", "attached c: unknown"], "a pod whose DEL never came");
  });

  it("POD-20: a pod whose flows the kernel does not delete is forgotten, and the plugin gets an error", async () => {
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

  it("POL-09: nothing is written before policies are compiled, and ADD waits until they are in force", async () => {
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

  it("POL-09 POD-20: a pod's link goes before its policies, and these before its flows are forgotten", async () => {
    const { daemon, journal, policies, hold } = heldDaemon([], { isFollowed: true });
    policies.prepared();
    policies.inForce();
    daemon.synced();
    const forgotten = hold("flows at the ports of a");
    let isRegistered = false;
    const registered = daemon.register(podRecord("a")).then(() => (isRegistered = true));
    await turn();
    assert.equal(isRegistered, false, "an earlier pod's flows at its ports are not forgotten yet");
    forgotten();
    await registered;
    await daemon.unregister(podRecord("a"));
    const order = ["attached a", "forget of a, 1 published", "link", "detached a", "forget a, 0 published"];
    assert.deepEqual(journal, order);
  });

  it("GUARD-01: no pod gets an address while the former pod still bypasses the bridge with it", async () => {
    const { daemon, commentsIn } = heldDaemon([podRecord("stubborn")]);
    daemon.synced();
    await turn();
    const heir = { addresses: podRecord("stubborn").addresses, portMappings: [] };
    await assert.rejects(daemon.register(podRecord("b", heir)), { code: "ERR_NETLINK" });
    assert.deepEqual(commentsIn("podmac"), ["n/stubborn"]);
  });
});

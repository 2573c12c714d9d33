import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { add, check, collectGarbage, type Configuration, del, garbageCall, startPlugin } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { everything, mapping, published } from "../../support/host_ports/published.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { testLab } from "../../support/suite_lab.ts";
import { randomFrom } from "../../support/random.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { writeAttachments } from "../../support/cni/many_attachments.ts";
import { roundsFor } from "../../support/long_form.ts";
import { assertQuiet } from "../../support/cni/add_result.ts";

const ATTACHMENTS = 5000;
const STALE = 100;
const KILLS = roundsFor("kills", 12, 200);

describe("GC", function () {
  this.timeout(120_000);
  let lab: Lab;
  let wired: WiredNode;

  beforeEach(function () {
    lab = testLab(this, "gc");
    wired = twoNodes(lab).node1;
  });

  const records = (network = "drawbridge"): string => `${wired.node.runDir}/attachments/${network}`;
  const store = (network = "drawbridge"): string => `${wired.node.dataDir}/${network}`;

  function attach(name: string, overrides: Configuration = {}): { readonly pod: LabPod; readonly result: unknown } {
    const pod = lab.pod(name);
    const outcome = add(wired, pod, overrides);
    assert.equal(outcome.exitCode, 0, outcome.stdout);
    return { pod, result: outcome.result };
  }

  const valid = (pod: LabPod, ifname = "eth0"): Configuration => ({ containerID: pod.containerId, ifname });

  /** Makes the path in a record lead nowhere, as it does in a mount namespace that the pod's runtime does not share. */
  function hidePath(pod: LabPod, network = "drawbridge"): string {
    const path = `${records(network)}/${pod.containerId}:eth0.json`;
    const record = JSON.parse(readFileSync(path, "utf8")) as { netns: object; hostInterface: string };
    writeFileSync(path, JSON.stringify({ ...record, netns: { path: "/run/netns/no-such-pod", inode: "1" } }));
    return record.hostInterface;
  }

  /** Makes the namespace of a record look ended: its path leads nowhere, and the link is gone. */
  function endNamespace(pod: LabPod, network?: string): void {
    wired.node.exec("ip", ["link", "del", hidePath(pod, network)]);
  }

  it("I11: GC keeps a pod whose link is there, though the pod's path leads nowhere or elsewhere where GC runs", () => {
    const hidden = attach("hidden").pod;
    hidePath(hidden);
    const replaced = attach("replaced").pod;
    const path = `${records()}/${replaced.containerId}:eth0.json`;
    writeFileSync(path, readFileSync(path, "utf8").replace(/"inode":"\d+"/, '"inode":"1"'));
    const before = nodeState(wired.node);
    assertQuiet(collectGarbage(wired, []), "in another mount namespace");
    assert.deepEqual(nodeState(wired.node), before);
    assert.equal(readdirSync(records()).length, 2);
    for (const pod of [hidden, replaced]) lab.remove(pod);
    const deadline = Date.now() + 20_000;
    while (nodeState(wired.node).podLinks.length > 0) assert.ok(Date.now() < deadline, "the kernel removes the links");
    assertQuiet(collectGarbage(wired, []), "after their end");
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("I11: GC without a list removes nothing and says so, and with an empty list removes only what has ended", () => {
    const alive = attach("alive", everything);
    const ended = attach("ended", { ...everything, runtimeConfig: {} });
    endNamespace(ended.pod);
    const before = nodeState(wired.node);
    for (const overrides of [{}, { "cni.dev/valid-attachments": null }, { "cni.dev/attachments": [] }]) {
      const { exitCode, stdout, stderr } = collectGarbage(wired, undefined, overrides);
      assert.deepEqual([exitCode, stdout], [0, ""]);
      assert.match(stderr, /^GC of network drawbridge without cni\.dev\/valid-attachments: nothing is removed\n$/);
      assert.deepEqual(nodeState(wired.node), before);
    }
    assertQuiet(collectGarbage(wired, []), "an empty list");
    assert.deepEqual(readdirSync(records()), [`${alive.pod.containerId}:eth0.json`]);
    assert.equal(nodeState(wired.node).podLinks.length, 1, "the link of what has ended is gone");
    assert.equal(nodeState(wired.node).reservations.length, 2);
    const elements = [...wired.node.ruleset().matchAll(/comment "dbv\S+ [^"]*"/g)].map(String);
    assert.ok(elements.length > 0 && elements.every((text) => text.includes(alive.pod.containerId)), elements.join());
    const { exitCode, error } = check(wired, alive.pod, alive.result, everything);
    assert.equal(exitCode, 0, error?.msg);
    assert.equal(del(wired, alive.pod, everything).exitCode, 0);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("I11: GC keeps listed attachments with the listed interface, and all interfaces of an entry that names none", () => {
    const [listed, whole, second, gone] = ["listed", "whole", "second", "gone"].map((name) => attach(name).pod);
    assert.ok(listed !== undefined && whole !== undefined && second !== undefined && gone !== undefined);
    for (const pod of [listed, whole, second, gone]) endNamespace(pod);
    const list = [valid(listed), { containerID: whole.containerId }, valid(second, "net1")];
    assertQuiet(collectGarbage(wired, list), "some");
    assert.deepEqual(
      readdirSync(records()).sort(),
      [listed, whole].map(({ containerId }) => `${containerId}:eth0.json`).sort(),
    );
    assert.equal(nodeState(wired.node).reservations.length, 4);
    const malformed = collectGarbage(wired, [{ ifname: "eth0" }]);
    assert.deepEqual([malformed.exitCode, malformed.error?.code], [1, 7]);
    assert.match(malformed.error?.msg ?? "", /^cni\.dev\/valid-attachments\[0\]\.containerID: missing/);
    assert.equal(readdirSync(records()).length, 2);
  });

  it("I11: GC keeps other networks' attachments, foreign files and running pods, and removes a pod without link whose path leads elsewhere", () => {
    const other = attach("other", { name: "another" }).pod;
    endNamespace(other, "another");
    const running = attach("running").pod;
    const replaced = attach("replaced").pod;
    const path = `${records()}/${replaced.containerId}:eth0.json`;
    writeFileSync(path, readFileSync(path, "utf8").replace(/"inode":"\d+"/, '"inode":"1"'));
    const { hostInterface } = JSON.parse(readFileSync(path, "utf8")) as { hostInterface: string };
    wired.node.exec("ip", ["link", "del", hostInterface]);
    const strangers = ["torn:eth0.json", "x.json", "a:b:c.json", ".scratch:eth0.json", "unsafe name:eth0.json"];
    for (const name of strangers) writeFileSync(`${records()}/${name}`, "{");
    assertQuiet(collectGarbage(wired, []), "strangers");
    assert.deepEqual(readdirSync(records()).sort(), [...strangers, `${running.containerId}:eth0.json`].sort());
    assert.equal(readdirSync(records("another")).length, 1);
    assert.equal(readdirSync(store("another")).filter((name) => name.startsWith("10.")).length, 1);
  });

  it("I11 I10: GC after a reboot removes records of another boot and old reservations without a record, but nothing of this boot", () => {
    const { pod } = attach("rebooted");
    const path = `${records()}/${pod.containerId}:eth0.json`;
    writeFileSync(path, readFileSync(path, "utf8").replace(/"bootId":"[^"]*"/, '"bootId":"another"'));
    const put = (address: string, content: string, isOld: boolean): void => {
      writeFileSync(`${store()}/${address}`, content);
      if (isOld) utimesSync(`${store()}/${address}`, 1000, 1000);
    };
    put("10.244.1.100", "old\r\neth0", true);
    put("10.244.1.101", "legacy", true);
    put("10.244.1.102", "listed\r\neth0", true);
    put("10.244.1.103", "listed", true);
    put("10.244.1.104", "new\r\neth0", false);
    put("10.244.1.105", "", true);
    put("10.244.1.106", "\0\0\0", true);
    put("10.244.1.107", "", false);
    put("10.244.1.108", "a note of the administrator", true);
    const running = attach("running").pod;
    for (const name of readdirSync(store())) {
      const file = `${store()}/${name}`;
      if (readFileSync(file, "utf8").startsWith(running.containerId)) utimesSync(file, 1000, 1000);
    }
    assertQuiet(collectGarbage(wired, [{ containerID: "listed" }]), "after a reboot");
    const left = readdirSync(store()).filter((name) => /^(10|fd)/.test(name));
    const ofRunning = left.filter((name) => readFileSync(`${store()}/${name}`, "utf8").startsWith(running.containerId));
    assert.equal(ofRunning.length, 2);
    assert.deepEqual(left.filter((name) => !ofRunning.includes(name)).sort(), [
      "10.244.1.102",
      "10.244.1.103",
      "10.244.1.104",
      "10.244.1.107",
      "10.244.1.108",
    ]);
    assert.deepEqual(readdirSync(records()), [`${running.containerId}:eth0.json`]);
    rmSync(records(), { recursive: true });
    assertQuiet(collectGarbage(wired, [{ containerID: "listed" }]), "without records the link shows that the pod runs");
    assert.equal(readdirSync(store()).filter((name) => ofRunning.includes(name)).length, 2);
  });

  it("FOREIGN-04: an address in another network's store is given away if it was reserved before the boot, and not if since, whatever file lies among the stores", () => {
    mkdirSync(store("former"), { recursive: true });
    for (const address of ["10.244.1.2", "10.244.1.3"])
      writeFileSync(`${store("former")}/${address}`, "former\r\neth0");
    utimesSync(`${store("former")}/10.244.1.3`, 1000, 1000);
    writeFileSync(store("backup.tgz"), "no directory");
    attach("ours");
    assert.deepEqual(
      readdirSync(store()).filter((name) => name.startsWith("10.")),
      ["10.244.1.3"],
    );
  });

  it("I11: the daemon forgets an attachment that GC removes", async () => {
    const policyd = new PolicydNode(lab, wired);
    const daemon = await policyd.start();
    try {
      const alive = attach("alive", policyd.overrides).pod;
      const ended = attach("ended", policyd.overrides).pod;
      endNamespace(ended);
      assert.equal(daemon.status().attachments, 2);
      assertQuiet(collectGarbage(wired, [valid(alive)], policyd.overrides), "with the daemon");
      assert.equal(daemon.status().attachments, 1);
      assert.deepEqual(readdirSync(records()), [`${alive.containerId}:eth0.json`]);
      assert.ok(!wired.node.ruleset().includes(ended.containerId));
    } finally {
      await policyd.kill();
    }
  });

  it("P18 I11: a GC that is killed at any moment leaves nothing that the next GC does not find", async () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    console.log(`      seed ${seed}`);
    const random = randomFrom(seed);
    const pods = Array.from(
      { length: 12 },
      (_, i) => attach(`p${i}`, { ...everything, runtimeConfig: published(mapping(7000 + i))["runtimeConfig"] }).pod,
    );
    for (const pod of pods) endNamespace(pod);
    for (let round = 0; round < KILLS; round++) {
      const running = startPlugin(wired.node, garbageCall(wired, []));
      await sleep(10 + random() * 60);
      running.kill("SIGKILL");
      await running.outcome;
    }
    assertQuiet(collectGarbage(wired, []), "the last one");
    assert.deepEqual(nodeState(wired.node), nothingHeld);
    assert.ok(!/comment "dbv/.test(wired.node.ruleset()), "no element is left");
  });

  it("I11: an error with one attachment does not end GC, which reports all errors together", () => {
    const pods = ["a", "b", "c"].map((name) => attach(name).pod);
    for (const pod of pods) endNamespace(pod);
    const [first, second] = pods;
    assert.ok(first !== undefined && second !== undefined);
    for (const pod of [first, second]) {
      const path = `${records()}/${pod.containerId}:eth0.json`;
      // The store of these two cannot be locked: its lock is a directory.
      mkdirSync(`${lab.scratch}/broken/drawbridge/lock`, { recursive: true });
      writeFileSync(path, readFileSync(path, "utf8").replace(/"dataDir":"[^"]*"/, `"dataDir":"${lab.scratch}/broken"`));
    }
    const { exitCode, error } = collectGarbage(wired, []);
    assert.equal(exitCode, 1);
    assert.equal((error?.msg ?? "").split("; ").length, 2, error?.msg);
    assert.match(error?.msg ?? "", /broken\/drawbridge\/lock.*; .*broken\/drawbridge\/lock/);
    assert.equal(readdirSync(records()).length, 2);
    assert.deepEqual(nodeState(wired.node).podLinks, [], "their links are gone all the same");
  });

  it(`I11: GC of ${ATTACHMENTS} attachments, of which ${ATTACHMENTS - STALE} are in the list, removes the others`, () => {
    const { pod } = attach("first");
    const ids = writeAttachments({ records: records(), store: store() }, ATTACHMENTS);
    assert.equal(del(wired, pod).exitCode, 0);
    const list = ids
      .filter((_, i) => i % (ATTACHMENTS / STALE) !== 0)
      .map((containerID) => ({ containerID, ifname: "eth0" }));
    const outcome = collectGarbage(wired, list);
    assertQuiet(outcome, "many");
    assert.equal(readdirSync(records()).length, ATTACHMENTS - STALE);
    assert.equal(readdirSync(store()).filter((name) => /^(10|fd)/.test(name)).length, 2 * (ATTACHMENTS - STALE));
    assert.ok(!existsSync(`${store()}/10.245.0.0`));
  });
});

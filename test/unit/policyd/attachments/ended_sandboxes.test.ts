import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import type { AttachmentRecord } from "../../../../attachment/attachment.ts";
import type { AttachmentName } from "../../../../attachment/policyd_messages.ts";
import { EndedSandboxes } from "../../../../policyd/attachments/ended_sandboxes.ts";
import { AttachmentRegistry, attachmentKey } from "../../../../policyd/attachments/registry.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import type { Pod } from "../../../../objects/model.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { podRecord } from "../../../support/node/held_daemon.ts";

const QUARTER = 900_000;

/** Makes an `EndedSandboxes` whose links, marks and clock the test controls. */
function watch(records: readonly AttachmentRecord[]) {
  const clock = new FakeClock();
  const attachments = new AttachmentRegistry();
  for (const record of records) attachments.add(record);
  const links = new Set<string>(records.map(({ hostInterface }) => hostInterface));
  const marks = new Map<string, number>();
  const unrecorded = new Set<string>();
  const ended = new EndedSandboxes({
    attachments,
    clock,
    logger: recordingLogger(),
    nodeName: "node1",
    hasLink: ({ hostInterface }) => links.has(hostInterface),
    isPresent: (record) => links.has(record.hostInterface) || !unrecorded.has(record.containerId),
    marks: {
      mark: (record) => {
        const key = attachmentKey(record);
        if (!marks.has(key)) marks.set(key, clock.now());
        return (clock.now() - (marks.get(key) ?? 0)) / 1000;
      },
      isMarked: (record) => marks.has(attachmentKey(record)),
      clear: (record) => void marks.delete(attachmentKey(record)),
    },
  });
  const forgotten: string[] = [];
  const unregister = async (name: AttachmentName): Promise<void> => {
    forgotten.push(name.containerId);
    attachments.remove(name);
    await ended.unregister(name);
  };
  const begin = (): void => ended.begin({ unregister });
  const setPods = (...pods: readonly Pod[]): void =>
    ended.apply(pods.map((object) => ({ type: "set", kind: "Pod", key: object.key, object })));
  return { ended, begin, clock, attachments, links, unrecorded, marks, forgotten, setPods };
}

const podOf = (name: string, changes: Partial<Pod> = {}): Pod => ({
  kind: "Pod",
  key: `n/${name}`,
  namespace: "n",
  name,
  uid: "u",
  staticUid: undefined,
  labels: {},
  annotations: {},
  controller: undefined,
  addresses: [],
  nodeName: "node1",
  hostNetwork: false,
  phase: "Running",
  isTerminating: false,
  ports: [],
  ...changes,
});

describe("policyd/attachments: sandboxes that ended without a DEL", () => {
  const holder = podRecord("a");
  const taker = podRecord("b", { pod: { namespace: "n", name: "b", uid: "other" } });

  it("ENDED-01: a sandbox gives way only when both its link and its Pod are gone", () => {
    const { ended, begin, links, setPods } = watch([holder]);
    begin();
    setPods(podOf("a"));
    ended.synced();
    assert.equal(ended.givesWay(holder, taker), false);
    links.clear();
    assert.equal(ended.givesWay(holder, taker), false, "its Pod is there");
    ended.apply([{ type: "delete", kind: "Pod", key: "n/a" }]);
    assert.equal(ended.givesWay(holder, taker), true);
    links.add(holder.hostInterface);
    assert.equal(ended.givesWay(holder, taker), false, "its link is there");
  });

  it("ENDED-01: a Pod that has finished, has another uid or is on another node counts as gone", () => {
    for (const changes of [{ phase: "Succeeded" }, { phase: "Failed" }, { uid: "v" }, { nodeName: "node2" }] as const) {
      const { ended, begin, links, setPods } = watch([holder]);
      begin();
      links.clear();
      setPods(podOf("a", changes));
      ended.synced();
      assert.equal(ended.givesWay(holder, taker), true, JSON.stringify(changes));
    }
  });

  it("ENDED-01: an ADD that is under way does not count as ended for a minute after its registration", async () => {
    const { ended, begin, attachments, links, clock, marks } = watch([]);
    begin();
    ended.synced();
    attachments.add(holder);
    await ended.register(holder);
    assert.equal(ended.givesWay(holder, taker), false);
    clock.pass(59_000);
    assert.equal(ended.givesWay(holder, taker), false);
    assert.equal(marks.size, 0);
    clock.pass(1000);
    assert.equal(ended.givesWay(holder, taker), true, "it was killed before it made its link");
    links.add(holder.hostInterface);
    assert.equal(ended.givesWay(holder, taker), false);
  });

  it("ENDED-01: a record without a link does not count as ended within 5 seconds of the daemon's start", () => {
    const { ended, begin, links, clock } = watch([holder]);
    links.clear();
    begin();
    ended.synced();
    assert.equal(ended.givesWay(holder, taker), false, "its ADD may be about to find this daemon");
    clock.pass(5000);
    assert.equal(ended.givesWay(holder, taker), true);
  });

  it("ENDED-01: no Pod counts as gone before all objects are read", () => {
    const { ended, begin, links } = watch([holder]);
    begin();
    links.clear();
    assert.equal(ended.givesWay(holder, taker), false);
    ended.synced();
    assert.equal(ended.givesWay(holder, taker), true);
  });

  it("ENDED-02: a Pod's earlier sandbox gives way even with its link, that of another Pod with the same name only without", () => {
    const { ended, begin, links } = watch([holder]);
    begin();
    const second = podRecord("b", { pod: { namespace: "n", name: "a", uid: "u" } });
    const heir = podRecord("c", { pod: { namespace: "n", name: "a", uid: "v" } });
    assert.deepEqual([ended.givesWay(holder, second), ended.givesWay(holder, heir)], [true, false]);
    links.clear();
    assert.deepEqual([ended.givesWay(holder, second), ended.givesWay(holder, heir)], [true, true]);
  });

  it("ENDED-02: neither a sandbox without a Pod nor one without a uid counts as an earlier sandbox of the same Pod", () => {
    const { ended, begin } = watch([holder]);
    begin();
    const { pod: _, ...nameless } = podRecord("b");
    assert.equal(ended.givesWay(nameless, podRecord("c")), false);
    const old = podRecord("b", { pod: { namespace: "n", name: "a", uid: "" } });
    assert.equal(ended.givesWay(old, podRecord("c", { pod: { namespace: "n", name: "a", uid: "" } })), false);
  });

  it("ENDED-03: an ended sandbox is marked and forgotten after a quarter of an hour, and a live one is neither", async () => {
    const alive = podRecord("z");
    const { ended, begin, links, clock, marks, forgotten, attachments } = watch([holder, alive]);
    begin();
    ended.synced();
    links.delete(holder.hostInterface);
    ended.lookAgain();
    clock.pass(30_000);
    assert.deepEqual([...marks.keys()], [attachmentKey(holder)]);
    clock.pass(QUARTER - 60_000);
    assert.deepEqual(forgotten, []);
    clock.pass(90_000);
    await turn();
    assert.deepEqual([forgotten, attachments.size], [["a"], 1]);
  });

  it("ENDED-03: a sandbox whose DEL found no daemon, so that its record and link are gone, is forgotten at the next check", async () => {
    const alive = podRecord("z");
    const { ended, begin, links, unrecorded, clock, forgotten, setPods } = watch([holder, alive]);
    begin();
    setPods(podOf("a"), podOf("z"));
    ended.synced();
    links.delete(holder.hostInterface);
    ended.lookAgain();
    clock.pass(20_000);
    assert.deepEqual(forgotten, []);
    unrecorded.add("a").add("z");
    clock.pass(10_000);
    await turn();
    assert.deepEqual(forgotten, ["a"]);
  });

  it("ENDED-03: a sandbox whose Pod comes back loses its mark", () => {
    const { ended, begin, links, clock, marks, setPods } = watch([holder]);
    begin();
    ended.synced();
    links.clear();
    ended.lookAgain();
    clock.pass(30_000);
    assert.equal(marks.size, 1);
    setPods(podOf("a"));
    clock.pass(30_000);
    assert.equal(marks.size, 0);
  });
});

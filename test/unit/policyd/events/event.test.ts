import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { KINDS } from "../../../../objects/model.ts";
import { eventOf } from "../../../../policyd/events/event.ts";
import type { Notice } from "../../../../policyd/events/notice.ts";
import { eventProblems } from "../../../apiserver/events.ts";

const TIME = Date.parse("2026-05-04T03:02:01.123Z");

const NOTICE: Notice = {
  regarding: { kind: "NetworkPolicy", key: "shop/web", uid: "u-1" },
  reason: "PolicyNotInForce",
  note: "NetworkPolicy shop/web: too large; split it into several",
};

function objectOf(notice: Notice, instance = "node1"): Readonly<Record<string, unknown>> {
  return JSON.parse(eventOf(notice, instance, TIME).body) as Readonly<Record<string, unknown>>;
}

describe("policyd/events/event", () => {
  it("EVENT-01: an Event says which daemon reports what about which object, and when", () => {
    const { name, namespace } = eventOf(NOTICE, "node1", TIME);
    assert.equal(namespace, "shop");
    assert.match(name, /^web\.[0-9a-f]{20}$/);
    assert.deepEqual(objectOf(NOTICE), {
      apiVersion: "events.k8s.io/v1",
      kind: "Event",
      metadata: { name, namespace },
      eventTime: "2026-05-04T03:02:01.123000Z",
      reportingController: "drawbridge-policyd",
      reportingInstance: "node1",
      type: "Warning",
      reason: "PolicyNotInForce",
      action: "Compile",
      note: NOTICE.note,
      regarding: {
        apiVersion: "networking.k8s.io/v1",
        kind: "NetworkPolicy",
        namespace: "shop",
        name: "web",
        uid: "u-1",
      },
    });
  });

  it("EVENT-01: an Event about an object without a namespace is in default; a Node's uid is its name, an unknown uid is omitted", () => {
    const node = { ...NOTICE, regarding: { kind: "Node", key: "node7", uid: "" } } as const;
    assert.equal(eventOf(node, "node1", TIME).namespace, "default");
    assert.deepEqual(objectOf(node)["regarding"], { apiVersion: "v1", kind: "Node", name: "node7", uid: "node7" });
    const policy = { ...NOTICE, regarding: { kind: "ClusterNetworkPolicy", key: "all", uid: "" } } as const;
    assert.deepEqual(objectOf(policy)["regarding"], {
      apiVersion: "policy.networking.k8s.io/v1beta1",
      kind: "ClusterNetworkPolicy",
      name: "all",
    });
  });

  it("EVENT-02: the same notice has the same name on every node at any time, and another notice has another name", () => {
    const { name } = eventOf(NOTICE, "node1", TIME);
    assert.equal(eventOf(NOTICE, "node2", TIME + 1).name, name);
    const { regarding } = NOTICE;
    const others: readonly Notice[] = [
      { ...NOTICE, note: "something else" },
      { ...NOTICE, reason: "NotUsedAsItIs" },
      { ...NOTICE, regarding: { ...regarding, uid: "u-2" } },
      { ...NOTICE, regarding: { ...regarding, kind: "Service" } },
      { ...NOTICE, regarding: { ...regarding, key: "other/web" } },
    ];
    const names = others.map((other) => eventOf(other, "node1", TIME).name);
    assert.equal(new Set([name, ...names]).size, 1 + others.length);
  });

  it("EVENT-01: whatever a note contains, the API server accepts the Event, and the note is one printable line", () => {
    const seed = Math.floor(Math.random() * 2 ** 31);
    const label = fc.stringMatching(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/);
    const name = fc.array(label, { minLength: 1, maxLength: 8 }).map((labels) => labels.join(".").slice(0, 253));
    const property = fc.property(
      fc.constantFrom(...KINDS),
      fc.option(label),
      name.filter((text) => /[a-z0-9]$/.test(text)),
      fc.string({ unit: "binary", minLength: 1, maxLength: 3000 }),
      name,
      (kind, namespace, object, note, instance) => {
        const key = namespace === null ? object : `${namespace}/${object}`;
        const event = objectOf({ ...NOTICE, regarding: { kind, key, uid: "" }, note }, instance);
        assert.deepEqual(eventProblems(event, namespace ?? "default"), []);
        assert.doesNotMatch(String(event["note"]), /[\p{C}\p{Zl}\p{Zp}]/u);
      },
    );
    fc.assert(property, { seed, numRuns: 300 });
  });

  it("EVENT-01: a note that is too long is cut between characters and ends in an ellipsis", () => {
    const note = String(objectOf({ ...NOTICE, note: "ü€".repeat(400) })["note"]);
    assert.ok(Buffer.byteLength(note) <= 1024 && Buffer.byteLength(note) > 1018, note);
    assert.match(note, /^(ü€)+ü?…$/);
  });
});

import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { ClusterNetworkPolicy, ObjectChange, Pod } from "../../../../../objects/model.ts";
import { observed } from "../../../../../policyd/metrics/commit_observer.ts";
import { gone, LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";
import { policyView } from "../../../../../policyd/policies/live/policy_view.ts";

/** Longer than a slice, so that each piece of work is a separate batch. */
const TICK = 10;
const BAD = "10.0.0.66";

function pod(name: string, ip: string, uid: string, labels: Readonly<Record<string, string>> = {}): Pod {
  return objectOf("Pod", {
    metadata: { name, namespace: "tenant", uid, labels },
    spec: { nodeName: "node1" },
    status: { phase: "Running", podIPs: [{ ip }] },
  });
}

/** Denies these pods access to the database. */
function denying(pods: object): ClusterNetworkPolicy {
  return objectOf("ClusterNetworkPolicy", {
    metadata: { name: "deny-bad" },
    spec: {
      tier: "Admin",
      priority: 1,
      subject: { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: "db" } } } },
      ingress: [{ action: "Deny", from: [{ pods }] }],
    },
  });
}

function namespaceOf(name: string, labels: Readonly<Record<string, string>>): ObjectChange {
  return set(objectOf("Namespace", { metadata: { name, labels } }));
}

/** Denies namespaces of a team access to the pods of an app. */
function denyingTeam(app = "db"): ObjectChange {
  const ingress = [{ action: "Deny", from: [{ namespaces: { matchLabels: { team: "bad" } } }] }];
  const subject = { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app } } } };
  const spec = { tier: "Admin", priority: 2, subject, ingress };
  return set(objectOf("ClusterNetworkPolicy", { metadata: { name: "deny-team" }, spec }));
}

const DENY_BAD = denying({ namespaceSelector: {}, podSelector: { matchLabels: { role: "bad" } } });
const DB = pod("db", "10.0.0.1", "db", { app: "db" });
const FIRST = pod("bad", BAD, "first", { role: "bad" });

/** A node with a pod that must not reach the database; records the denied peers after each batch. */
function setUp() {
  const denied: (readonly string[])[] = [];
  const kernel = new FakeNftables();
  const holder: { node: LiveNode | undefined } = { node: undefined };
  const deniedBy = (node: LiveNode): readonly string[] =>
    node
      .provided()
      .filter((name) => name.startsWith("pods_") && name.endsWith("_v4"))
      .flatMap((name) => node.elements(name));
  const committed = (): void => void (holder.node && denied.push(deniedBy(holder.node)));
  const node = new LiveNode({
    kernel: observed(kernel, { before: () => {}, committed }),
    clock: new TickingClock(TICK),
  });
  node.change(set(DB), set(FIRST), set(DENY_BAD));
  node.apply({ type: "attached", attachment: attachmentOf(DB, ["10.0.0.1"]) });
  node.apply({ type: "attached", attachment: attachmentOf(FIRST, [BAD]) });
  node.settle();
  const before = deniedBy(node);
  assert.equal(before.length, 1);
  holder.node = node;
  return { node, denied, before, now: () => deniedBy(node) };
}

describe("policyd/policies/live: peers whose Pod is gone", () => {
  it("POL-58: a pod that is deleted by force stays denied, in every batch, until it is detached", () => {
    const { node, denied, before, now } = setUp();
    node.change(gone(FIRST));
    assert.deepEqual(now(), before);
    assert.deepEqual(policyView(node.component.live).holderOf(parseAddress(BAD)), { type: "pod", pod: FIRST });
    // A watch that begins again reports the Pod again.
    node.change(set(FIRST));
    node.change(gone(FIRST));
    for (const [index, one] of denied.entries()) assert.deepEqual(one, before, `batch ${index}`);
    node.apply({ type: "detached", name: attachmentOf(FIRST, [BAD]) });
    node.settle();
    assert.deepEqual(now(), []);
    assert.equal(policyView(node.component.live).holderOf(parseAddress(BAD)), undefined);
    node.stop();
  });

  it("POL-58: a pod that is attached after its name has gone to another Pod is not evaluated as its deleted Pod", () => {
    const { node, before, now } = setUp();
    const earlier = pod("other", "10.0.0.67", "earlier", { role: "bad" });
    node.change(set(earlier));
    assert.equal(now().length, 2);
    // The changes are reported and not yet compiled, as in a burst.
    const changes = [set(DB), set(FIRST), set(earlier), set(pod("other", "10.0.0.68", "later"))];
    node.apply({ type: "objects", changes });
    node.apply({ type: "attached", attachment: attachmentOf(earlier, ["10.0.0.67"]) });
    node.settle();
    assert.deepEqual(now(), before);
    assert.match(
      node.component.problems().join(),
      /tenant\/other sends and receives nothing: policyd does not know its Pod/,
    );
  });

  it("POL-58: a deleted pod whose name another Pod has by now stays denied, whatever the other one is", () => {
    const { node, denied, before, now } = setUp();
    const second = pod("bad", "10.0.0.67", "second", { role: "good" });
    node.change(set(second));
    assert.deepEqual(now(), before);
    node.change(set(pod("bad", "10.0.0.67", "second", { role: "bad" })));
    assert.equal(now().length, 2);
    for (const [index, one] of denied.entries()) assert.ok(one.includes(before[0] ?? ""), `batch ${index}`);
    node.apply({ type: "detached", name: attachmentOf(FIRST, [BAD]) });
    node.settle();
    assert.equal(now().length, 1);
    assert.notDeepEqual(now(), before);
    node.stop();
  });

  it("POL-58: a deleted pod stays denied in every batch while members of its namespace wait to be settled", () => {
    const { node, denied, before } = setUp();
    node.change(namespaceOf("tenant", {}), denyingTeam());
    denied.splice(0);
    node.change(namespaceOf("tenant", { team: "bad" }), gone(FIRST));
    assert.ok(denied.length > 1);
    for (const [index, one] of denied.entries()) assert.ok(one.includes(before[0] ?? ""), `batch ${index}`);
    node.stop();
  });

  it("POL-58: a deleted pod stays denied for another pod that is coming into force, at whatever moment it goes", () => {
    const web = pod("web", "10.0.0.2", "web", { app: "web" });
    for (let turn = 0; turn < 12; turn++) {
      const { node, denied, before } = setUp();
      node.change(namespaceOf("tenant", { team: "bad" }), denyingTeam("web"), set(web));
      node.apply({ type: "attached", attachment: attachmentOf(web, ["10.0.0.2"]) });
      for (let ticks = 0; ticks < turn; ticks++) node.tick();
      node.change(gone(FIRST));
      for (const [index, one] of denied.entries())
        assert.ok(one.includes(before[0] ?? ""), `turn ${turn}, batch ${index}`);
      node.stop();
    }
  });

  it("POL-09 POD-20: a pod that gets a former pod's address comes into force only after that pod has lost it", () => {
    const { node, before, now } = setUp();
    const [bad = ""] = before;
    const crowd = Array.from({ length: 30 }, (_, number) => {
      const metadata = { name: `p${number}`, namespace: "crowd", uid: `${number}` };
      return set(objectOf("Pod", { metadata, status: { phase: "Running", podIPs: [{ ip: `10.1.0.${number}` }] } }));
    });
    const heir = objectOf("Pod", {
      metadata: { name: "heir", namespace: "tenant", uid: "heir" },
      spec: { nodeName: "node1" },
      status: { phase: "Pending" },
    });
    node.change(namespaceOf("crowd", {}), denyingTeam(), ...crowd, set(heir));
    // The whole crowd has to be settled, and the former pod's Pod still exists.
    node.apply({ type: "objects", changes: [namespaceOf("crowd", { team: "bad" })] });
    node.apply({ type: "detached", name: attachmentOf(FIRST, [BAD]), flows: "none" });
    node.ruleset.flush();
    node.apply({ type: "attached", attachment: attachmentOf(heir, [BAD]), flows: "none" });
    const isKnown = (): boolean => node.elements("known4").includes(bad);
    assert.deepEqual([isKnown(), now().includes(bad)], [false, true]);
    for (let tick = 0; tick < 200; tick++) {
      node.tick();
      if (isKnown()) assert.equal(now().includes(bad), false, `tick ${tick}`);
    }
    assert.ok(isKnown() && now().length === crowd.length);
    node.stop();
  });

  it("POL-58: the last labels of a deleted namespace still count for its pods, as peers and as subjects", () => {
    const [team, space] = [denyingTeam(), namespaceOf("tenant", { team: "bad" })];
    const subject = { namespaces: { matchLabels: { team: "bad" } } };
    const spec = {
      tier: "Admin",
      priority: 3,
      subject,
      egress: [{ action: "Deny", to: [{ networks: ["0.0.0.0/0"] }] }],
    };
    const jail = set(objectOf("ClusterNetworkPolicy", { metadata: { name: "jail" }, spec }));
    const none = { kind: "Namespace", key: "tenant" } as const;
    for (const ends of [
      [gone(FIRST), gone(none)],
      [gone(none), gone(FIRST)],
    ]) {
      const { node, denied, before, now } = setUp();
      const jailed = (): readonly string[] => node.judged("egress4").filter((one) => one.startsWith(before[0] ?? "?"));
      node.change(gone(DENY_BAD), space, team, jail);
      const [peers, verdicts] = [now(), jailed()];
      assert.deepEqual([peers.length, verdicts.length], [2, 1]);
      denied.splice(0);
      for (const end of ends) node.change(end);
      node.change(set(objectOf("Node", { metadata: { name: "node2" } })));
      for (const [index, one] of denied.entries()) assert.ok(one.includes(before[0] ?? ""), `batch ${index}`);
      assert.deepEqual([now(), jailed()], [peers, verdicts]);
      node.change(space);
      assert.deepEqual([now(), jailed()], [peers, verdicts]);
      node.stop();
    }
  });

  it("POL-58: a deleted namespace's last labels stay for its last pod, and where another pod of it gets other labels", () => {
    const alone = pod("alone", "10.0.0.66", "alone");
    const away = (labels: Readonly<Record<string, string>>): ObjectChange => {
      const metadata = { name: "away", namespace: "far", labels };
      return set(objectOf("Pod", { metadata, status: { phase: "Running", podIPs: [{ ip: "10.0.9.9" }] } }));
    };
    const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(TICK) });
    const denied = (): number =>
      node.provided().flatMap((name) => (/^pods_.*_v4$/.test(name) ? node.elements(name) : [])).length;
    const db = { ...DB, key: "data/db", namespace: "data" };
    node.change(
      set(db),
      set(alone),
      away({}),
      namespaceOf("tenant", { team: "bad" }),
      namespaceOf("far", { team: "bad" }),
    );
    node.change(denyingTeam());
    node.apply({ type: "attached", attachment: attachmentOf(db, ["10.0.0.1"]) });
    node.apply({ type: "attached", attachment: attachmentOf(alone, ["10.0.0.66"]) });
    node.settle();
    assert.equal(denied(), 2);
    for (const key of ["tenant", "far"]) node.change(gone({ kind: "Namespace", key }));
    node.change(gone(alone));
    node.change(away({ app: "other" }));
    assert.equal(denied(), 2);
    node.apply({ type: "detached", name: attachmentOf(alone, ["10.0.0.66"]) });
    node.change(gone({ kind: "Pod", key: "far/away" }));
    assert.equal(denied(), 0);
    node.change(away({}), set(alone));
    assert.equal(denied(), 0, "nothing of what was before is left");
    node.stop();
  });

  it("POL-58: a deleted namespace's last labels count for its last pod, also if its Pod goes or changes afterwards", () => {
    const [last, space] = [pod("last", BAD, "a"), namespaceOf("tenant", { team: "bad" })];
    const spec = {
      tier: "Admin",
      priority: 3,
      subject: { namespaces: { matchLabels: { team: "bad" } } },
      egress: [{ action: "Deny", to: [{ networks: ["0.0.0.0/0"] }] }],
    };
    const jail = set(objectOf("ClusterNetworkPolicy", { metadata: { name: "jail" }, spec }));
    for (const end of [gone(last), set(pod("last", BAD, "a", { role: "bad" }))]) {
      const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(TICK) });
      node.change(set(last), space, jail);
      node.apply({ type: "attached", attachment: attachmentOf(last, [BAD]) });
      node.settle();
      const verdicts = node.judged("egress4");
      assert.equal(verdicts.length, 1);
      node.change(gone({ kind: "Namespace", key: "tenant" }));
      node.change(end);
      assert.deepEqual(node.judged("egress4"), verdicts);
      // A pod that comes to a namespace with the name after all pods have gone has none of the old labels.
      node.apply({ type: "detached", name: attachmentOf(last, [BAD]) });
      node.change(gone(last));
      node.change(set(last));
      node.apply({ type: "attached", attachment: attachmentOf(last, [BAD]) });
      node.settle();
      assert.deepEqual([node.judged("egress4"), node.elements("known4").length], [[], 1]);
      node.stop();
    }
  });
});

import assert from "node:assert/strict";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { BudgetBounds } from "../../../../../policyd/lib/budget.ts";
import type { NetworkPolicy, ObjectChange } from "../../../../../objects/model.ts";
import {
  RetainedPolicies,
  packPolicy,
  unpackPolicy,
} from "../../../../../policyd/policies/live/index/retained_policies.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import { gone, LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { show } from "../../../../support/policy/question.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";

const TERMINATING = { uid: "1", isTerminating: true };
const ACTIVE = { uid: "1", isTerminating: false };

function policy(name: string, namespace = "n"): NetworkPolicy {
  return objectOf("NetworkPolicy", { metadata: { name, namespace }, spec: { podSelector: {} } });
}

/** Retained policies with one pod in the namespace "n". */
function withPod(there: readonly NetworkPolicy[] = [], roomBounds?: BudgetBounds) {
  const clock = new FakeClock();
  const bounds = roomBounds === undefined ? {} : { roomBounds };
  const retained = new RetainedPolicies({ clock, isEarlier: () => false, policiesIn: () => there, ...bounds });
  retained.begin();
  retained.namespaceChanged("n", ACTIVE);
  const life = retained.enter("n", "a");
  return { clock, retained, life, keys: () => [...life.retained.keys()].sort() };
}

describe("policyd/policies/live/retained_policies", () => {
  it("POL-58: a policy that is deleted while its namespace terminates stays for its pods (CVE-2024-7598)", () => {
    const { retained, keys } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.policyDeleted(policy("p", "other"));
    assert.deepEqual(keys(), ["n/p"]);
  });

  it("POL-58: a policy stays if it was deleted at most two minutes before the termination was seen, and not if earlier", () => {
    for (const seconds of [20, 40, 90]) {
      const { retained, clock, keys } = withPod();
      retained.policyDeleted(policy("p"));
      clock.pass(seconds * 1000);
      retained.namespaceChanged("n", TERMINATING);
      assert.deepEqual(keys(), ["n/p"], `${seconds} s, as while Namespaces are awaited`);
    }
    const { retained, clock, keys } = withPod();
    retained.policyDeleted(policy("old"));
    clock.pass(1);
    retained.policyDeleted(policy("p"));
    clock.pass(120_000);
    assert.deepEqual(keys(), []);
    assert.equal(retained.namespaceChanged("n", TERMINATING), true);
    assert.deepEqual(keys(), ["n/p"]);
  });

  it("POL-58: a policy that is deleted together with its namespace stays for its pods, in either order", () => {
    const first = withPod();
    first.retained.policyDeleted(policy("p"));
    assert.equal(first.retained.namespaceChanged("n", undefined), true);
    const second = withPod();
    second.retained.namespaceChanged("n", undefined);
    second.retained.policyDeleted(policy("p"));
    assert.deepEqual([first.keys(), second.keys()], [["n/p"], ["n/p"]]);
  });

  it("POL-58: a policy that is deleted from a namespace that stays is not retained", () => {
    const { retained, keys } = withPod();
    retained.policyDeleted(policy("p"));
    assert.equal(retained.namespaceChanged("n", ACTIVE), false);
    assert.deepEqual(keys(), []);
    retained.policySet(policy("p"));
    retained.namespaceChanged("n", TERMINATING);
    assert.deepEqual(keys(), [], "a policy that exists again is not retained");
  });

  it("POL-58: a namespace that is created again has no retained policies, and pods of the former one keep theirs", () => {
    const { retained, keys } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", undefined);
    retained.namespaceChanged("n", ACTIVE);
    assert.deepEqual([...retained.enter("n", "c").retained.keys()], []);
    assert.deepEqual(keys(), ["n/p"]);
  });

  it("POL-58: policies of a namespace that is created again select its own pods, whenever they came, and no pod that keeps policies of the former one", () => {
    const namespace = (uid: string) => objectOf("Namespace", { metadata: { name: "n", uid } });
    const pod = (name: string) =>
      objectOf("Pod", { metadata: { name, namespace: "n", uid: name }, spec: { nodeName: "node1" } });
    const open = (name: string) => {
      const spec = { podSelector: {}, policyTypes: ["Ingress"], ingress: [{}] };
      return objectOf("NetworkPolicy", { metadata: { name, namespace: "n", uid: "2" }, spec });
    };
    const [former, early, denying] = [pod("former"), pod("early"), policy("deny")];
    for (const { key, name } of [open("deny"), open("open")]) {
      const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(0) });
      const attach = (of: typeof former, address: string): void => {
        node.change(set(of));
        node.apply({ type: "attached", attachment: attachmentOf(of, [address]) });
        node.settle();
      };
      const rulesOf = (of: typeof former): readonly string[] =>
        node.component.live.policiesOf(of).networkPolicies.map((one) => `${one.key} ${one.ingress.length}`);
      node.change(set(namespace("1")), set(denying));
      attach(former, "10.0.0.1");
      const closed = node.elements("ingress4");
      node.change(gone(former), gone(denying), gone(namespace("1")));
      attach(early, "10.0.0.2");
      node.change(set(namespace("2")));
      assert.deepEqual(rulesOf(former), ["n/deny 0"]);
      node.change(set(open(name)));
      node.settle();
      assert.deepEqual(rulesOf(former), ["n/deny 0"]);
      assert.ok(
        closed.length === 1 && node.elements("ingress4").includes(closed[0] ?? ""),
        "it is as closed as before",
      );
      assert.ok(rulesOf(early).includes(`${key} 1`), "its Pod is there");
      node.stop();
    }
    const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(0) });
    node.change(set(namespace("1")), set(former));
    node.apply({ type: "attached", attachment: attachmentOf(former, ["10.0.0.1"]) });
    node.change(gone(former), gone(namespace("1")), set(early));
    node.apply({ type: "attached", attachment: attachmentOf(early, ["10.0.0.2"]) });
    node.change(set(namespace("2")), set(denying));
    node.settle();
    const closed = node.elements("ingress4");
    node.change(gone(early));
    node.settle();
    assert.deepEqual(node.elements("ingress4"), closed, "where the former one has no policies, nobody is opened");
    node.stop();
  });

  it("POL-58: the end of a namespace is seen between two lists if the second has another one with the name", () => {
    for (const next of [
      { ...ACTIVE, uid: "2" },
      { ...TERMINATING, uid: "2" },
    ]) {
      const there = [policy("later")];
      const { retained, keys } = withPod(there);
      retained.policyDeleted(policy("p"));
      assert.equal(retained.namespaceChanged("n", ACTIVE), false);
      assert.equal(retained.namespaceChanged("n", next), true);
      assert.deepEqual(keys(), ["n/later", "n/p"], "a present policy may be the former namespace's");
      assert.deepEqual([...retained.enter("n", "c").retained.keys()], []);
      assert.equal(retained.namespaceChanged("n", next), false);
    }
    const { retained, keys } = withPod();
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", { ...ACTIVE, uid: "" });
    retained.namespaceChanged("n", { ...ACTIVE, uid: "2" });
    assert.deepEqual(keys(), [], "a Namespace from a file has no identity");
  });

  it("POL-58: a pod that is reported again stays in its namespace's life, and in no other", () => {
    const { retained, life } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", undefined);
    assert.equal(retained.enter("n", "a", life), life);
    assert.notEqual(retained.enter("other", "a", life), life);
    assert.deepEqual([...retained.enter("n", "b").retained.keys()], [], "no pod of the former namespace is left");
  });

  it("POL-58: a pod that is attached late to a terminating namespace has its retained policies, even as its only pod", () => {
    const { retained, life } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.leave(life, "a");
    const late = retained.enter("n", "late");
    assert.deepEqual([...late.retained.keys()], ["n/p"]);
    retained.namespaceChanged("n", undefined);
    retained.leave(late, "late");
    assert.deepEqual([...retained.enter("n", "c").retained.keys()], [], "nothing is left of a namespace and its pods");
  });

  describe("of pods that an earlier daemon had", () => {
    /** A daemon that reads objects, with the pod "earlier" from before. */
    const starting = () =>
      new RetainedPolicies({ clock: new FakeClock(), isEarlier: (key) => key === "earlier", policiesIn: () => [] });

    for (const isFirst of [true, false]) {
      it(`POL-58: the policies are unknown if the Namespace is gone when all objects are read, for a pod added ${isFirst ? "before" : "after"} that, and not for a new pod`, () => {
        const next = starting();
        next.namespaceChanged("default", ACTIVE);
        const before = isFirst ? ["n", "default"].map((name) => next.enter(name, "earlier")) : [];
        // It may still be there when Namespaces are read, and gone when all else is.
        for (const state of isFirst ? [] : [ACTIVE, undefined]) next.namespaceChanged("n", state);
        next.begin();
        const [former, there] = isFirst ? before : ["n", "default"].map((name) => next.enter(name, "earlier"));
        assert.deepEqual([former?.isUnknown, there?.isUnknown, next.enter("n", "new").isUnknown], [true, false, false]);
        next.namespaceChanged("n", { ...ACTIVE, uid: "2" });
        assert.deepEqual([former?.isUnknown, next.enter("n", "newer").isUnknown], [true, false], "another of its name");
      });
    }

    it("POL-58: a pod whose namespace is gone passes nothing, though no policy is left that could select it", () => {
      const attachment = attachmentOf({ namespace: "n", name: "a", uid: "1" }, ["10.0.0.1"]);
      const known4 = (isEarlier: boolean, ...changes: readonly ObjectChange[]): number => {
        const node = new LiveNode({
          kernel: new FakeNftables(),
          clock: new TickingClock(1),
          known: [
            { type: "attached", attachment },
            { type: "objects", changes },
          ],
          isEarlier: () => isEarlier,
        });
        node.settle();
        node.stop();
        return node.elements("known4").length;
      };
      assert.deepEqual([known4(true), known4(false)], [0, 1]);
      const pod = (name: number) => set(objectOf("Pod", { metadata: { name: `p${name}`, namespace: "n" } }));
      const last = set(objectOf("Namespace", { metadata: { name: "n", uid: "1" } }));
      assert.equal(known4(true, ...Array.from({ length: 100 }, (_, name) => pod(name)), last), 1, "it was read last");
    });

    it("POL-58: the policies are unknown if the namespace was being deleted when all objects are read, and those of one that ends later are known", () => {
      const next = starting();
      next.namespaceChanged("n", TERMINATING);
      next.namespaceChanged("later", ACTIVE);
      const [ending, later] = [next.enter("n", "earlier"), next.enter("later", "earlier")];
      next.begin();
      next.namespaceChanged("later", undefined);
      assert.deepEqual([ending.isUnknown, later.isUnknown], [true, false]);
    });
  });

  it("POL-58: nothing is retained for a namespace that ended without pods", () => {
    const { retained, life } = withPod();
    retained.leave(life, "a");
    retained.namespaceChanged("n", undefined);
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", ACTIVE);
    assert.deepEqual([...retained.enter("n", "c").retained.keys()], []);
  });

  it("POL-58: a policy that was deleted shortly before its namespace is packed until then, and stays unchanged for its pods", () => {
    const large = objectOf("NetworkPolicy", {
      metadata: { name: "large", namespace: "n", uid: "u-1", annotations: { note: "kept" } },
      spec: {
        podSelector: { matchLabels: { app: "a" } },
        policyTypes: ["Ingress", "Egress"],
        ingress: [
          {
            from: [
              ...Array.from({ length: 400 }, (_, i) => ({ ipBlock: { cidr: `10.1.${i >> 8}.${i & 255}/32` } })),
              { podSelector: {}, namespaceSelector: { matchLabels: { team: "b" } } },
            ],
            ports: [{ protocol: "TCP", port: 80, endPort: 90 }],
          },
        ],
        egress: [],
      },
    });
    const packed = packPolicy(large);
    assert.ok(packed.bytes.length * 8 < packed.size, `${packed.bytes.length} bytes of ${packed.size}`);
    assert.equal(show(unpackPolicy(packed)), show(large));
    const small = packPolicy(policy("small"));
    assert.equal(small.bytes.buffer.byteLength, small.bytes.length, "nothing else stays in memory");
    assert.equal(show(unpackPolicy(small)), show(policy("small")));

    const taken = withPod();
    taken.retained.policyDeleted(large);
    taken.clock.pass(100_000);
    taken.retained.namespaceChanged("n", TERMINATING);
    assert.equal(show([...taken.life.retained.values()]), show([large]), "the pods keep the policy unchanged");
  });

  it("API-25: deleted policies beyond a namespace's room make its end unknown for two minutes, and no other's", () => {
    const names = ["p1", "p2", "p3", "p4"];
    const room = { share: 1024, pool: 8192, most: 2560 };
    const full = withPod([], room);
    const other = full.retained.enter("other", "b");
    for (const name of names) full.retained.policyDeleted(policy(name));
    full.retained.policyDeleted(policy("p", "other"));
    for (const name of ["n", "other"]) assert.equal(full.retained.namespaceChanged(name, TERMINATING), true);
    assert.ok(full.life.isUnknown && !other.isUnknown);
    assert.deepEqual(full.keys(), ["n/p1", "n/p2", "n/p3"]);
    assert.deepEqual([...other.retained.keys()], ["other/p"]);

    const replaced = withPod([], room);
    for (const name of names) replaced.retained.policyDeleted(policy(name));
    assert.equal(replaced.retained.namespaceChanged("n", { ...ACTIVE, uid: "2" }), true);
    assert.ok(replaced.life.isUnknown && !replaced.retained.enter("n", "c").isUnknown);

    const old = withPod([], room);
    for (const name of [...names, "p5"]) old.retained.policyDeleted(policy(name));
    old.clock.pass(120_001);
    for (const name of names.slice(1)) old.retained.policyDeleted(policy(name));
    old.retained.policySet(policy("p2"));
    old.retained.policyDeleted(policy("p1"));
    old.retained.namespaceChanged("n", TERMINATING);
    assert.ok(!old.life.isUnknown, "old ones are forgotten without further events, and so is one that exists again");
    assert.deepEqual(old.keys(), ["n/p1", "n/p3", "n/p4"]);
  });

  it("API-25: a running pod is closed when its namespace ends after more of its policies than there is room for", () => {
    const pod = objectOf("Pod", { metadata: { name: "a", namespace: "n", uid: "1" }, spec: { nodeName: "node1" } });
    const namespace = objectOf("Namespace", { metadata: { name: "n", uid: "1" } });
    const to = Array.from({ length: 9000 }, (_, i) => ({
      podSelector: { matchLabels: { key: `${i}`.padEnd(60, "x") } },
    }));
    const spec = { podSelector: { matchLabels: { app: "other" } }, policyTypes: ["Egress"], egress: [{ to }] };
    const large = objectOf("NetworkPolicy", { metadata: { name: "p", namespace: "n" }, spec });
    const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(0) });
    node.change(set(namespace), set(pod));
    node.apply({ type: "attached", attachment: attachmentOf(pod, ["10.0.0.1"]) });
    node.settle();
    const many = Array.from({ length: 14 }, (_, i) => Object.freeze({ ...large, name: `p${i}`, key: `n/p${i}` }));
    for (const one of many) node.change(set(one));
    for (const one of many) node.change(gone(one));
    assert.equal(node.elements("egress4").length, 1);
    node.change(gone(namespace));
    assert.deepEqual([...node.elements("egress4"), ...node.elements("ingress4")], []);
    node.stop();
  });
});

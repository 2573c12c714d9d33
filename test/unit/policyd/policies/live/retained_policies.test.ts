import assert from "node:assert/strict";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { BudgetBounds } from "../../../../../policyd/lib/budget.ts";
import type { NetworkPolicy } from "../../../../../objects/model.ts";
import { RetainedPolicies } from "../../../../../policyd/policies/live/index/retained_policies.ts";
import {
  NO_RETAINED_FILES,
  type RetainedRecord,
  type RetainedRecords,
  type RetainedStore,
} from "../../../../../policyd/policies/retained/retained_files.ts";
import { packPolicy, unpackPolicy } from "../../../../../policyd/policies/retained/packed_policy.ts";
import { policyManifest } from "../../../../../policyd/policies/retained/policy_manifest.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import { gone, LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
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
  const retained = new RetainedPolicies({ clock, store: NO_RETAINED_FILES, policiesIn: () => there, ...bounds });
  retained.begin();
  retained.namespaceChanged("n", ACTIVE);
  const life = retained.enter("n", "a");
  return { clock, retained, life, keys: () => [...life.retained.keys()].sort() };
}

class MemoryStore implements RetainedStore {
  readonly records = new Map<number, RetainedRecord>();
  readonly present: Set<string>;
  isWhole = true;

  constructor(present: readonly string[]) {
    this.present = new Set(present);
  }

  load(): RetainedRecords {
    const { isWhole } = this;
    return { records: new Map(this.records), isWhole, lastNumber: Math.max(0, ...this.records.keys()) };
  }

  save(number: number, record: RetainedRecord): void {
    this.records.set(number, record);
  }

  remove(number: number): void {
    this.records.delete(number);
  }

  attachments(): ReadonlySet<string> {
    return this.present;
  }
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

  describe("after a restart", () => {
    const P = policy("p");

    /** A daemon that has read all objects. @param state of the namespace "n" @param there policies in it */
    function daemon(store: RetainedStore, state: object | undefined, there: readonly NetworkPolicy[] = []) {
      const retained = new RetainedPolicies({ clock: new FakeClock(), store, policiesIn: () => there });
      if (state !== undefined) retained.namespaceChanged("n", { ...ACTIVE, ...state });
      for (const one of there) retained.policySet(one);
      return retained;
    }

    /** The files of an earlier daemon that saw the namespace terminate while it had pods. */
    function ended(pods: readonly string[] = ["a"]): MemoryStore {
      const store = new MemoryStore(pods);
      const retained = daemon(store, ACTIVE, [P]);
      retained.begin();
      for (const key of pods) retained.enter("n", key);
      assert.equal(store.records.size, 0, "nothing is saved while the namespace does not terminate");
      retained.namespaceChanged("n", TERMINATING);
      return store;
    }

    it("POL-58: pods keep their policies if the namespace is gone or another one has its name, and new pods do not get them", () => {
      for (const state of [undefined, ACTIVE]) {
        const next = daemon(ended(), state);
        next.begin();
        assert.deepEqual([...next.enter("n", "a").retained.keys()], ["n/p"]);
        const other = next.enter("n", "b");
        assert.equal(other.retained.size, state === undefined ? 1 : 0);
        assert.equal(other.isUnknown, false);
      }
    });

    describe("with records that cannot all be read", () => {
      /** A daemon after an earlier one with the pods "a" and "b", of which only "b" is in a readable record. */
      function lossy(namespaces: readonly string[], isWhole = false): RetainedPolicies {
        const store = new MemoryStore(["a", "b"]);
        store.isWhole = isWhole;
        store.save(7, { namespace: "saved", attachments: ["b"], policies: [policy("p", "saved")] });
        const retained = new RetainedPolicies({ clock: new FakeClock(), store, policiesIn: () => [] });
        for (const name of namespaces) retained.namespaceChanged(name, ACTIVE);
        retained.begin();
        return retained;
      }

      it("POL-58: a pod has unknown policies if its Namespace came and went before all objects were read, also when it returns", () => {
        const store = new MemoryStore(["a"]);
        store.isWhole = false;
        const next = new RetainedPolicies({ clock: new FakeClock(), store, policiesIn: () => [] });
        for (const name of ["default", "n"]) next.namespaceChanged(name, ACTIVE);
        next.namespaceChanged("n", undefined);
        next.begin();
        for (let times = 2; times > 0; times--) {
          const life = next.enter("n", "a");
          assert.equal(life.isUnknown, true);
          next.leave(life, "a");
          assert.equal(next.enter("n", "new").isUnknown, false);
        }
      });

      it("POL-58: a pod that comes before all objects are read has unknown policies if its Namespace is missing then", () => {
        const store = new MemoryStore(["a", "there"]);
        store.isWhole = false;
        const next = new RetainedPolicies({ clock: new FakeClock(), store, policiesIn: () => [] });
        const [life, other] = [next.enter("n", "a"), next.enter("default", "there")];
        next.namespaceChanged("default", ACTIVE);
        next.begin();
        assert.deepEqual([life.isUnknown, other.isUnknown], [true, false]);
        next.namespaceChanged("n", ACTIVE);
        assert.deepEqual([life.isUnknown, next.enter("n", "new").isUnknown], [true, false], "another of its name");
      });

      it("POL-58 POL-24: other pods have known policies: in an existing namespace, new ones, or without any Namespaces", () => {
        assert.equal(lossy(["default", "n"]).enter("n", "a").isUnknown, false, "there");
        assert.equal(lossy(["default"]).enter("n", "new").isUnknown, false, "its Namespace may come later");
        assert.equal(lossy([]).enter("n", "a").isUnknown, false, "files may have no Namespaces");
        assert.equal(lossy(["default"], true).enter("n", "a").isUnknown, false, "all was read");
      });
    });

    it("POL-58: a record follows pods and policies, and goes when all its pods have gone while no daemon ran", () => {
      const store = ended(["a", "b"]);
      store.present.delete("b");
      const next = daemon(store, TERMINATING, [policy("p"), policy("q")]);
      next.begin();
      next.enter("n", "c");
      const [record] = store.records.values();
      assert.deepEqual(record?.attachments, ["a", "c"]);
      assert.deepEqual(record?.policies.map(({ name }) => name).sort(), ["p", "q"]);
      store.present.clear();
      daemon(store, undefined).begin();
      assert.equal(store.records.size, 0);
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
    assert.ok(packed.text.length * 4 < JSON.stringify(policyManifest(large)).length, `${packed.text.length} bytes`);
    assert.deepEqual(unpackPolicy(packed), large);
    const small = packPolicy(policy("small"));
    assert.equal(small.text.buffer.byteLength, small.text.length, "nothing else stays in memory");
    assert.deepEqual(unpackPolicy(small), policy("small"));

    const taken = withPod();
    taken.retained.policyDeleted(large);
    taken.clock.pass(100_000);
    taken.retained.namespaceChanged("n", TERMINATING);
    assert.deepEqual([...taken.life.retained.values()], [large], "the pods keep the policy unchanged");
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
    const many = Array.from({ length: 10 }, (_, i) => Object.freeze({ ...large, name: `p${i}`, key: `n/p${i}` }));
    for (const one of many) node.change(set(one));
    for (const one of many) node.change(gone(one));
    assert.equal(node.elements("egress4").length, 1);
    node.change(gone(namespace));
    assert.deepEqual([...node.elements("egress4"), ...node.elements("ingress4")], []);
    node.stop();
  });
});

import assert from "node:assert/strict";
import { FakeClock } from "../../../../../policyd/clock.ts";
import type { NetworkPolicy } from "../../../../../policyd/cluster/model.ts";
import { RetainedPolicies } from "../../../../../policyd/policy/live/retained_policies.ts";
import type {
  RetainedRecord,
  RetainedRecords,
  RetainedStore,
} from "../../../../../policyd/policy/retained/retained_files.ts";
import { packPolicy, unpackPolicy } from "../../../../../policyd/policy/retained/packed_policy.ts";
import { policyManifest } from "../../../../../policyd/policy/retained/policy_manifest.ts";
import { NO_RETAINED_FILES } from "../../../../../policyd/policy/retained/retained_files.ts";
import { objectOf } from "../../../../support/policy/live/objects.ts";

const TERMINATING = { uid: "1", isTerminating: true };
const ACTIVE = { uid: "1", isTerminating: false };

function policy(name: string, namespace = "n"): NetworkPolicy {
  return objectOf("NetworkPolicy", { metadata: { name, namespace }, spec: { podSelector: {} } });
}

/** Retained policies with one pod in the namespace "n". */
function withPod(there: readonly NetworkPolicy[] = []) {
  const clock = new FakeClock();
  const retained = new RetainedPolicies({ clock, store: NO_RETAINED_FILES, policiesIn: () => there });
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

describe("policyd/policy/live/retained_policies", () => {
  it("POL-58: a policy that is deleted while its namespace ends stays for its pods (CVE-2024-7598)", () => {
    const { retained, keys } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.policyDeleted(policy("p", "other"));
    assert.deepEqual(keys(), ["n/p"]);
  });

  it("POL-58: so does one that was deleted up to two minutes before that was seen, and no older one", () => {
    for (const seconds of [20, 40, 90]) {
      const { retained, clock, keys } = withPod();
      retained.policyDeleted(policy("p"));
      clock.pass(seconds * 1000);
      retained.namespaceChanged("n", TERMINATING);
      assert.deepEqual(keys(), ["n/p"], `${seconds} s, as when Namespaces are waited for`);
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

  it("POL-58: and one that goes together with its namespace, in either order", () => {
    const first = withPod();
    first.retained.policyDeleted(policy("p"));
    assert.equal(first.retained.namespaceChanged("n", undefined), true);
    const second = withPod();
    second.retained.namespaceChanged("n", undefined);
    second.retained.policyDeleted(policy("p"));
    assert.deepEqual([first.keys(), second.keys()], [["n/p"], ["n/p"]]);
  });

  it("POL-58: who deletes a policy from a namespace that stays gets what he asked for", () => {
    const { retained, keys } = withPod();
    retained.policyDeleted(policy("p"));
    assert.equal(retained.namespaceChanged("n", ACTIVE), false);
    assert.deepEqual(keys(), []);
    retained.policySet(policy("p"));
    retained.namespaceChanged("n", TERMINATING);
    assert.deepEqual(keys(), [], "what is there again need not be retained");
  });

  it("POL-58: a namespace that is created anew begins clean, and the pods of the former keep what they had", () => {
    const { retained, keys } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", undefined);
    retained.namespaceChanged("n", ACTIVE);
    assert.deepEqual([...retained.enter("n", "c").retained.keys()], []);
    assert.deepEqual(keys(), ["n/p"]);
  });

  it("POL-58: nor is the end of a namespace missed between two lists, of which the second has another of its name", () => {
    for (const next of [
      { ...ACTIVE, uid: "2" },
      { ...TERMINATING, uid: "2" },
    ]) {
      const there = [policy("later")];
      const { retained, keys } = withPod(there);
      retained.policyDeleted(policy("p"));
      assert.equal(retained.namespaceChanged("n", ACTIVE), false);
      assert.equal(retained.namespaceChanged("n", next), true);
      assert.deepEqual(keys(), ["n/later", "n/p"], "what is there yet may be the former's and be deleted later");
      assert.deepEqual([...retained.enter("n", "c").retained.keys()], []);
      assert.equal(retained.namespaceChanged("n", next), false);
    }
    const { retained, keys } = withPod();
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", { ...ACTIVE, uid: "" });
    retained.namespaceChanged("n", { ...ACTIVE, uid: "2" });
    assert.deepEqual(keys(), [], "a file says nothing of which one it is");
  });

  it("POL-58: a pod that is told again is in the namespace it was in, and in no other", () => {
    const { retained, life } = withPod();
    retained.namespaceChanged("n", TERMINATING);
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", undefined);
    assert.equal(retained.enter("n", "a", life), life);
    assert.notEqual(retained.enter("other", "a", life), life);
    assert.deepEqual([...retained.enter("n", "b").retained.keys()], [], "nobody is left of the former");
  });

  it("POL-58: a pod that is attached late to a namespace that ends has them, also when all others have gone", () => {
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

  describe("over a restart", () => {
    const P = policy("p");

    /** A daemon with what is in the namespace "n", that has read all objects. @param state of the namespace */
    function daemon(store: RetainedStore, state: object | undefined, there: readonly NetworkPolicy[] = []) {
      const retained = new RetainedPolicies({ clock: new FakeClock(), store, policiesIn: () => there });
      if (state !== undefined) retained.namespaceChanged("n", { ...ACTIVE, ...state });
      for (const one of there) retained.policySet(one);
      return retained;
    }

    /** Files of an earlier daemon that saw the namespace end while there were pods. */
    function ended(pods: readonly string[] = ["a"]): MemoryStore {
      const store = new MemoryStore(pods);
      const retained = daemon(store, ACTIVE, [P]);
      retained.begin();
      for (const key of pods) retained.enter("n", key);
      assert.equal(store.records.size, 0, "nothing is saved of what does not end");
      retained.namespaceChanged("n", TERMINATING);
      return store;
    }

    it("POL-58: pods keep the policies that were there when their namespace began to end", () => {
      const store = ended();
      const next = daemon(store, TERMINATING);
      next.begin();
      const life = next.enter("n", "a");
      assert.deepEqual([[...life.retained.keys()], life.isUnknown], [["n/p"], false]);
      next.leave(life, "a");
      assert.equal(store.records.size, 0, "the last pod takes them along");
    });

    it("POL-58: also where the namespace is gone, or another one has its name, which has nothing to do with them", () => {
      for (const state of [undefined, ACTIVE]) {
        const next = daemon(ended(), state);
        next.begin();
        assert.deepEqual([...next.enter("n", "a").retained.keys()], ["n/p"]);
        const other = next.enter("n", "b");
        assert.equal(other.retained.size, state === undefined ? 1 : 0);
        assert.equal(other.isUnknown, false);
      }
    });

    it("POL-58: of a namespace that ends and of which nothing is saved nobody knows what its pods keep", () => {
      const store = new MemoryStore(["a"]);
      const next = daemon(store, TERMINATING, [P]);
      next.begin();
      assert.equal(next.enter("n", "a").isUnknown, true);
      assert.equal(store.records.size, 0, "the next one does not know either");
      assert.equal(next.namespaceChanged("other", TERMINATING), false);
      assert.equal(next.enter("other", "b").isUnknown, false, "this one has seen all its life");
    });

    describe("where not all that was saved can be read", () => {
      /** Pods "a" and "b" are of an earlier daemon; "b" is in what can be read. */
      function lossy(namespaces: readonly string[], isWhole = false): RetainedPolicies {
        const store = new MemoryStore(["a", "b"]);
        store.isWhole = isWhole;
        store.save(7, { namespace: "saved", attachments: ["b"], policies: [policy("p", "saved")] });
        const retained = new RetainedPolicies({ clock: new FakeClock(), store, policiesIn: () => [] });
        for (const name of namespaces) retained.namespaceChanged(name, ACTIVE);
        retained.begin();
        return retained;
      }

      it("POL-58: a pod whose namespace is gone sends and receives nothing", () => {
        const next = lossy(["default"]);
        assert.equal(next.enter("n", "a").isUnknown, true);
        const saved = next.enter("saved", "b");
        assert.deepEqual([[...saved.retained.keys()], saved.isUnknown], [["saved/p"], false]);
        const gone = lossy(["default", "n"]);
        gone.namespaceChanged("n", undefined);
        assert.equal(gone.enter("n", "a").isUnknown, false, "this one has seen all its life");
      });

      it("POL-58: also where its Namespace was told and went before all was read, and when it is attached again", () => {
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

      it("POL-58: also where it comes before all was read, as it does beside a large cluster", () => {
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

      it("POL-58 POL-24: no other pod: not one whose namespace is there, a new one, or any without Namespaces", () => {
        assert.equal(lossy(["default", "n"]).enter("n", "a").isUnknown, false, "there");
        assert.equal(lossy(["default"]).enter("n", "new").isUnknown, false, "its Namespace may come later");
        assert.equal(lossy([]).enter("n", "a").isUnknown, false, "files may have no Namespaces");
        assert.equal(lossy(["default"], true).enter("n", "a").isUnknown, false, "all was read");
      });
    });

    it("POL-58: what is saved follows the pods and the policies, and pods that have gone meanwhile do not hold it", () => {
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

  it("POL-58: nothing is kept of what ended without pods", () => {
    const { retained, life } = withPod();
    retained.leave(life, "a");
    retained.namespaceChanged("n", undefined);
    retained.policyDeleted(policy("p"));
    retained.namespaceChanged("n", ACTIVE);
    assert.deepEqual([...retained.enter("n", "c").retained.keys()], []);
  });

  it("MEM-01: a deleted policy is forgotten after two minutes, though nothing else happens, and large ones are packed until then", () => {
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
    const packed = packPolicy(large, false);
    assert.ok("text" in packed);
    assert.ok(packed.text.length * 4 < JSON.stringify(policyManifest(large)).length, `${packed.text.length} bytes`);
    assert.deepEqual(unpackPolicy(packed), large);
    assert.deepEqual(packPolicy(policy("small"), false), { policy: policy("small") });
    assert.deepEqual(unpackPolicy(packPolicy(policy("small"), true)), policy("small"));

    const taken = withPod();
    taken.retained.policyDeleted(large);
    taken.clock.pass(100_000);
    taken.retained.namespaceChanged("n", TERMINATING);
    assert.deepEqual([...taken.life.retained.values()], [large], "as it was, for its pods");

    const left = withPod();
    left.retained.policyDeleted(large);
    left.clock.pass(60_000);
    left.retained.policyDeleted(policy("small"));
    assert.equal(left.retained.recentCount, 2);
    left.clock.pass(61_000);
    assert.equal(left.retained.recentCount, 1);
    left.clock.pass(61_000);
    assert.equal(left.retained.recentCount, 0);
  });
});

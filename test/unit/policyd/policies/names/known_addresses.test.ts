import assert from "node:assert/strict";
import { type Address, parseAddress } from "../../../../../kernel/ip/address.ts";
import type { NameGroup } from "../../../../../policyd/policies/compile/profile.ts";
import { KnownAddresses } from "../../../../../policyd/policies/names/known_addresses.ts";

const [A, B, C] = ["10.244.1.7", "10.244.1.8", "fd00:244:1::9"].map((text) => parseAddress(text));
assert.ok(A !== undefined && B !== undefined && C !== undefined);
const remote = (number: number): Address => parseAddress(`203.0.113.${number}`);

function group(key: string, ...names: readonly string[]): NameGroup {
  return { type: "names", key, names };
}

/** Returns until when an address counts for a pod by some patterns, in place of those that it had. */
function until(known: KnownAddresses, patterns: readonly string[], pod: Address, address: Address): number | undefined {
  const key = patterns.join(" ");
  known.regroup(pod, [group(key, ...patterns)]);
  return known.longest({ pod, remote: address, group: key })?.until;
}

describe("addresses that pods know by names", () => {
  it("NAME-07: an address counts for the pod that asked, by patterns of the name, as long as the longest of its names", () => {
    const known = new KnownAddresses({ perPod: 10, perNode: 10 });
    known.learn(A, remote(1), "a.example.com", 100, []);
    known.learn(A, remote(1), "b.example.com", 300, []);
    known.learn(A, remote(1), "b.example.com", 200, []);
    assert.equal(until(known, ["*.example.com"], A, remote(1)), 300);
    assert.equal(until(known, ["a.example.com"], A, remote(1)), 100);
    assert.equal(until(known, ["example.com"], A, remote(1)), undefined);
    assert.equal(until(known, ["*.example.com"], B, remote(1)), undefined);
  });

  it("NAME-07: beyond the bounds of a pod its oldest address goes, and beyond those of the node the oldest of the pod with most", () => {
    const known = new KnownAddresses({ perPod: 2, perNode: 3 });
    const learn = (pod: Address, number: number) =>
      known.learn(pod, remote(number), "a.example.com", 100, []).map((gone) => [gone.pod, gone.remote]);
    assert.deepEqual([learn(A, 1), learn(A, 2), learn(A, 1)], [[], [], []]);
    assert.deepEqual(learn(A, 3), [[A, remote(2)]]);
    assert.deepEqual([learn(B, 4), learn(C, 5)], [[], [[A, remote(1)]]]);
    assert.deepEqual(
      [learn(B, 6), learn(C, 7)],
      [[[B, remote(4)]], [[C, remote(5)]]],
      "the pod with most is the one that learns",
    );
    assert.equal(known.size, 3);
    assert.equal(until(known, ["a.example.com"], A, remote(1)), undefined);
    assert.equal(until(known, ["a.example.com"], A, remote(3)), 100);
    known.forget(B);
    assert.equal(known.size, 2);
  });

  it("NAME-07: an address counts once for each of its names, or for each set that has it, and more than one oldest goes", () => {
    const known = new KnownAddresses({ perPod: 4, perNode: 10 });
    const learn = (number: number, name: string, groups: readonly string[]) =>
      known.learn(A, remote(number), `${name}.example.com`, 100, groups).map((gone) => gone.remote);
    assert.deepEqual([learn(1, "a", ["g"]), learn(1, "b", ["g"]), learn(2, "a", ["g", "h"])], [[], [], []]);
    assert.deepEqual(learn(3, "a", ["g", "h", "i"]), [remote(1), remote(2)]);
    assert.deepEqual(learn(4, "a", ["g", "h", "i", "j", "k"]), [remote(3), remote(4)], "it has no room at all");
    assert.equal(known.size, 0);
  });

  it("NAME-07: addresses that more sets have after a change of policies make the oldest go", () => {
    const known = new KnownAddresses({ perPod: 4, perNode: 10 });
    for (const number of [1, 2, 3]) known.learn(A, remote(number), "a.example.com", 100, ["g"]);
    const regroup = (...groups: readonly string[]) =>
      known.regroup(
        A,
        groups.map((key) => group(key, "a.example.com")),
      );
    assert.deepEqual(
      regroup("g", "h").map((gone) => gone.remote),
      [remote(1)],
    );
    assert.deepEqual(regroup(), []);
    assert.deepEqual(known.learn(A, remote(4), "a.example.com", 100, ["g"]), []);
  });

  it("NAME-03: a connection keeps an address by the names that still count, and by no other", () => {
    const known = new KnownAddresses({ perPod: 10, perNode: 10 });
    for (const [name, end] of [["a", 100] as const, ["b", 200] as const, ["c", 900] as const]) {
      known.learn(A, remote(1), `${name}.example.com`, end, [name]);
    }
    known.learn(A, remote(2), "c.example.com", 900, ["c"]);
    const ending = (end: number) => known.endingBetween(100, end).map((one) => one.remote);
    assert.deepEqual([ending(199), ending(200)], [[], [remote(1)]]);
    known.dirty.clear();
    known.prolong({ pod: A, remote: remote(1) }, 100, 500);
    assert.deepEqual([...known.namesOf(A, remote(1)).values()], [100, 500, 900]);
    assert.deepEqual([...known.dirty.values()], [{ pod: A, remote: remote(1), group: "b" }]);
    assert.deepEqual(known.longest({ pod: A, remote: remote(1), group: "b" }), { name: "b.example.com", until: 500 });
  });

  it("NAME-07: of more than 16 names of one address the oldest is forgotten", () => {
    const known = new KnownAddresses({ perPod: 20, perNode: 20 });
    for (let i = 0; i < 17; i++) known.learn(A, remote(1), `n${i}.example.com`, 100, []);
    assert.equal(until(known, ["n0.example.com"], A, remote(1)), undefined);
    assert.equal(until(known, ["n1.example.com"], A, remote(1)), 100);
  });

  it("NAME-11: after a change of policies an address stays in the sets that the pod still has, also by a forgotten name", () => {
    const known = new KnownAddresses({ perPod: 20, perNode: 20 });
    for (let i = 0; i < 17; i++) known.learn(A, remote(1), `n${i}.example.com`, 100, [i === 0 ? "first" : "others"]);
    known.learn(A, remote(1), "a.example.org", 100, ["gone"]);
    known.dirty.clear();
    known.regroup(A, [group("first", "n0.example.com"), group("others", "*.example.com")]);
    assert.deepEqual([...known.dirty.values()], [{ pod: A, remote: remote(1), group: "gone" }]);
    assert.equal(known.longest({ pod: A, remote: remote(1), group: "first" })?.until, 100);
  });
});

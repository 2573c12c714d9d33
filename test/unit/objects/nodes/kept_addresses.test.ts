import assert from "node:assert/strict";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr } from "../../../../kernel/ip/cidr.ts";
import type { Node } from "../../../../objects/model.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import { problemsIn } from "../../../../objects/nodes/node_verdict.ts";
import { node } from "../../../support/routes/machine.ts";

const CIDRS = ["10.244.2.0/24", "fd00:244:2::/64"];
const A = node("a", ["192.0.2.1", "2001:db8::1"], ["10.244.1.0/24"]);
const [V4, V6] = ["192.0.2.2", "2001:db8::2"];
const b = (...names: readonly string[]) => node("b", names, CIDRS);
const B = b(V4, V6);
const since = (one: Node, notReadySince: number): Node => ({ ...one, notReadySince });

/** A judge on node a, and the time, which the test sets. */
function world(...nodes: readonly Node[]) {
  const time = { now: 1_000_000, set: 0 };
  const clock = { now: () => time.now, time: () => time.now + time.set };
  const judge = new NodeJudge({ nodeName: "a", keeps: true, clock });
  const set = (...all: readonly Node[]) =>
    judge.apply(all.map((object) => ({ type: "set", kind: "Node", key: object.key, object })));
  set(A, ...nodes);
  judge.synced();
  const addressesOf = (name: string) => judge.judged.nodes.get(name)?.addresses.map(formatAddress);
  const cidrsOf = (name: string) => judge.judged.nodes.get(name)?.podCidrs.map(formatCidr);
  return { judge, time, set, addressesOf, cidrsOf, problems: () => problemsIn(judge.judged).join("\n") };
}

describe("objects/nodes: passing reports", () => {
  for (const [what, names, first] of [
    ["no address", [], /names no InternalIP of IPv4 and IPv6/],
    ["no IPv4 address", [V6], /names no InternalIP of IPv4 any more; 192\.0\.2\.2 stays/],
    ["no IPv6 address", [V4], /names no InternalIP of IPv6 any more; 2001:db8::2 stays/],
    ["its addresses in another order", [V6, V4], /in another order/],
    ["only an address that no node can have", ["127.0.0.1"], /names no InternalIP of IPv4 and IPv6/],
  ] as const) {
    it(`D14: a Node that names ${what} for a while keeps its routes, which is reported until it names all`, () => {
      const { set, addressesOf, problems, judge } = world(node("b", [V4, V6], CIDRS));
      set(node("b", names, CIDRS));
      assert.deepEqual(addressesOf("b"), [V4, V6]);
      assert.match(problems(), first);
      set(node("b", [V4, V6], CIDRS));
      assert.deepEqual([addressesOf("b"), problems()], [[V4, V6], ""]);
      judge.apply([{ type: "delete", kind: "Node", key: "b" }]);
      assert.equal(addressesOf("b"), undefined);
    });
  }

  it("D14: a Node keeps its ExternalIPs in a family of which it names no InternalIP, unless it or another Node names them", () => {
    const external = (...all: readonly string[]): Node["addresses"] =>
      all.map((address) => ({ type: "ExternalIP", address: parseAddress(address) }));
    const { judge, set } = world({
      ...B,
      addresses: [...B.addresses, ...external("198.51.100.1", "198.51.100.2", "2001:db8:1::2")],
    });
    const other = node("c", ["198.51.100.1"], []);
    set(other);
    const named = node("b", [V6], CIDRS);
    const changes = set({ ...named, addresses: [...named.addresses, ...external("198.51.100.9")] });
    const used = changes.flatMap((one) =>
      one.type === "set" && one.object.kind === "Node" ? one.object.addresses : [],
    );
    const text = used.map(({ type, address }) => `${type} ${formatAddress(address)}`);
    assert.deepEqual(text.toSorted(), [
      "ExternalIP 198.51.100.2",
      "ExternalIP 198.51.100.9",
      `InternalIP ${V4}`,
      `InternalIP ${V6}`,
    ]);
    assert.equal(judge.apply(changes).length, 1);
    const again = set({ ...named, addresses: external("198.51.100.2") });
    const both = again.flatMap((one) => (one.type === "set" && one.object.kind === "Node" ? one.object.addresses : []));
    assert.equal(both.filter(({ address }) => formatAddress(address) === "198.51.100.2").length, 1);
  });

  for (const type of ["ExternalIP", "InternalIP"] as const) {
    it(`D14: a Node gives up an ExternalIP that it has kept, and no other address, when another Node names it as ${type}`, () => {
      const external = (["198.51.100.1", "198.51.100.2"] as const).map(
        (text) => ({ type: "ExternalIP", address: parseAddress(text) }) as const,
      );
      const { set } = world({ ...B, addresses: [...B.addresses, ...external] }, node("c", ["192.0.2.3"], []));
      set({ ...B, addresses: [] });
      const c = node("c", ["192.0.2.3"], []);
      const named = { ...c, addresses: [...c.addresses, { type, address: parseAddress("198.51.100.1") }] };
      const used = set(named).flatMap((one) => (one.type === "set" && one.object.kind === "Node" ? [one.object] : []));
      const texts = used.map(({ name, addresses }) => [name, ...addresses.map((one) => formatAddress(one.address))]);
      assert.deepEqual(texts, [
        ["c", "192.0.2.3", "198.51.100.1"],
        ["b", V4, "198.51.100.2", V6],
      ]);
    });
  }

  it("D14: the own Node keeps its addresses, too", () => {
    const { set, addressesOf } = world();
    set(node("a", [], []));
    assert.deepEqual(addressesOf("a"), ["192.0.2.1", "2001:db8::1"]);
  });

  it("D14: a Node that names addresses of both families in turn, or only those of the other one, is not in another order", () => {
    const { set, addressesOf, problems } = world(node("b", [V4, V6], CIDRS), node("d", ["192.0.2.4"], []));
    set(node("b", [V4, V6, "192.0.2.9"], CIDRS), node("c", ["192.0.2.4"], []), node("d", ["2001:db8::4"], []));
    assert.deepEqual([addressesOf("b"), addressesOf("d")], [[V4, V6, "192.0.2.9"], ["2001:db8::4"]]);
    assert.equal(problems(), "");
  });

  it("D14: an address that a Node names is used at once, and one that another Node names is not kept", () => {
    const { set, addressesOf } = world(node("b", [V4, V6], CIDRS));
    set(node("b", ["192.0.2.9"], CIDRS));
    assert.deepEqual(addressesOf("b"), ["192.0.2.9", V6]);
    set(node("c", [V6], []));
    assert.deepEqual([addressesOf("b"), addressesOf("c")], [["192.0.2.9"], [V6]]);
  });

  for (const [what, gone, time] of [
    ["renamed", (one: Node) => since(one, 600_000), 1_000_000],
    ["not Ready for five minutes only later", (one: Node) => since(one, 900_000), 1_200_001],
  ] as const) {
    it(`D14: a Ready Node has the address and pod CIDR of a dead one that is ${what}, before and after a restart`, () => {
      const dead = gone(node("b", [V4, V6], CIDRS));
      const running = world(dead);
      running.set(node("c", [V4, V6], CIDRS));
      running.time.now = time;
      running.set({ ...A });
      const started = world();
      started.time.now = time;
      started.set(dead, node("c", [V4, V6], CIDRS));
      for (const { addressesOf, cidrsOf } of [running, started]) {
        assert.deepEqual([addressesOf("c"), addressesOf("b")], [[V4, V6], []]);
        assert.deepEqual([cidrsOf("c"), cidrsOf("b")], [CIDRS, []]);
      }
    });
  }

  for (const [what, cidr] of [
    ["the same pod CIDR", "10.244.2.0/24"],
    ["a part of its pod CIDR", "10.244.2.128/25"],
    ["another pod CIDR", "10.244.9.0/24"],
  ] as const) {
    it(`D14: a Node that is not Ready loses its address to a Ready one with ${what} after five minutes, without a change`, () => {
      const dead = since(node("b", [V4], CIDRS.slice(0, 1)), 1_000_000);
      const { judge, time, set, addressesOf, cidrsOf } = world(dead);
      set(node("b2", [V4], [cidr]));
      const changed = judge.reader();
      changed();
      time.now += 299_999;
      judge.apply([]);
      assert.deepEqual([[...changed()], addressesOf("b2"), judge.isWaiting], [[], [], true]);
      time.now += 1;
      assert.deepEqual(judge.apply([]), [], "no object has changed");
      assert.deepEqual([...changed()].toSorted(), ["b", "b2"]);
      assert.deepEqual([addressesOf("b2"), cidrsOf("b2"), judge.isWaiting], [[V4], [cidr], false]);
    });
  }

  for (const set of [-3_600_000, 3_600_000]) {
    it(`D14 DAEMON-09: a Node that is not Ready loses its address after five minutes although the wall clock is set by ${set} ms`, () => {
      const running = world(since(node("b", [V4], []), 1_000_000), node("c", [V4], []));
      running.time.set = set;
      for (const [passed, expected] of [
        [299_999, []],
        [1, [V4]],
      ] as const) {
        running.time.now += passed;
        running.judge.apply([]);
        assert.deepEqual(running.addressesOf("c"), expected);
      }
    });
  }

  const old = since(node("old", [V4, V6], CIDRS), 0);
  for (const [what, before, steps, of] of [
    [
      "it names none, and a dead Node names the same ones",
      [old, B],
      [{ ...B, addresses: [] }, { ...old }],
      [[V4, V6], []],
    ],
    [
      "a dead Node that names the same ones is Ready again",
      [old, B],
      [{ ...old, notReadySince: undefined }],
      [[V4, V6], []],
    ],
    ["it names no IPv6 address, and then another one", [B], [b(V4), b(V4, "2001:db8::9")], [[V4, "2001:db8::9"]]],
    [
      "it and another Node have swapped theirs",
      [b(V4), node("old", ["192.0.2.9"], [])],
      [b("192.0.2.9"), node("old", [V4], [])],
      [["192.0.2.9"], [V4]],
    ],
  ] as const) {
    it(`D14: a Node has the right addresses when ${what}`, () => {
      const { set, addressesOf } = world(...before);
      for (const step of steps) set(step as Node);
      assert.deepEqual(["b", "old"].slice(0, of.length).map(addressesOf), of);
    });
  }

  it("D14: a Node that has not been Ready for less than five minutes, or that has no rival, keeps its claims", () => {
    const { set, addressesOf } = world(
      since(node("b", [V4, V6], CIDRS), 800_000),
      since(node("d", ["192.0.2.4"], []), 0),
    );
    set(node("c", [V4, V6], CIDRS));
    assert.deepEqual([addressesOf("b"), addressesOf("c"), addressesOf("d")], [[V4, V6], [], ["192.0.2.4"]]);
  });
});

import assert from "node:assert/strict";
import fc from "fast-check";
import { familyOf, formatAddress } from "../../../../kernel/ip/address.ts";
import { cidrContains, formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import type { Node } from "../../../../policyd/cluster/model.ts";
import { judgeNodes } from "../../../../policyd/routes/peers.ts";
import { node } from "../../../support/routes/machine.ts";

const A = node("a", ["192.0.2.1"], ["10.244.1.0/24", "fd00:244:1::/64"]);
const C = node("c", ["192.0.2.3", "2001:db8::3"], ["10.244.3.0/24", "fd00:244:3::/64"]);

/** What is routed to whom, from node a. */
function routed(nodes: readonly Node[]): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    judgeNodes(nodes, "a").others.map(({ name, podCidrs }) => [name, podCidrs.map(formatCidr)]),
  );
}

const problemsOf = (nodes: readonly Node[]): string => judgeNodes(nodes, "a").problems.join("\n");

describe("policyd/routes/peers", () => {
  it("POD-21: other nodes have their first address of each family and their pod CIDRs", () => {
    const { own, others, problems } = judgeNodes([C, A], "a");
    assert.equal(own?.name, "a");
    assert.deepEqual(problems, []);
    const [peer] = others;
    assert.deepEqual(peer?.podCidrs.map(formatCidr), ["10.244.3.0/24", "fd00:244:3::/64"]);
    assert.deepEqual(
      [peer?.primary, peer?.addresses[4], peer?.addresses[6]].map((one) => one && formatAddress(one)),
      ["192.0.2.3", "192.0.2.3", "2001:db8::3"],
    );
  });

  it("D1: a CIDR that two nodes have goes to neither, and says whose it is; the others keep theirs", () => {
    const nodes = [A, node("b", ["192.0.2.2"], ["10.244.3.0/24", "10.244.2.0/24"]), C];
    assert.deepEqual(routed(nodes), { b: ["10.244.2.0/24"], c: ["fd00:244:3::/64"] });
    assert.match(
      problemsOf(nodes),
      /^Node b: pod CIDR 10\.244\.3\.0\/24 overlaps 10\.244\.3\.0\/24 of Node c; it gets no route$/m,
    );
    assert.match(problemsOf(nodes), /^Node c: pod CIDR 10\.244\.3\.0\/24 overlaps 10\.244\.3\.0\/24 of Node b/m);
  });

  it("D1: of two that overlap the larger goes nowhere", () => {
    const nodes = [A, node("b", ["192.0.2.2"], ["10.244.2.0/23"]), C];
    assert.deepEqual(routed(nodes), { b: [], c: ["10.244.3.0/24", "fd00:244:3::/64"] });
    assert.match(problemsOf(nodes), /^Node b: pod CIDR 10\.244\.2\.0\/23 overlaps 10\.244\.3\.0\/24 of Node c/);
  });

  it("D1: nobody takes a part of this node's pods away, also where the Node says nothing yet", () => {
    const thief = node("b", ["192.0.2.2"], ["10.244.1.128/25"]);
    assert.deepEqual(routed([A, thief]), { b: [] });
    const twin = node("0", ["192.0.2.9"], ["10.244.1.0/24"]);
    assert.deepEqual(routed([twin, A, thief]), { "0": [], b: [] });
    const { others } = judgeNodes([node("a", ["192.0.2.1"], []), thief], "a", [parseCidr("10.244.1.0/24")]);
    assert.deepEqual(others[0]?.podCidrs, []);
  });

  for (const [cidr, why] of [
    ["192.0.2.0/28", /has the address 192\.0\.2\.1 of Node a/],
    ["0.0.0.0/0", /overlaps/],
    ["127.0.0.0/9", /overlaps 127\.0\.0\.0\/8/],
    ["fe80::/64", /overlaps fe80::\/10/],
    ["2001:db8::/32", /has the address 2001:db8::3 of Node c/],
  ] as const) {
    it(`D1: ${cidr} is nobody's pod CIDR`, () => {
      const nodes = [A, node("b", ["192.0.2.2"], [cidr, "10.244.2.0/24"]), C];
      assert.deepEqual(routed(nodes)["b"], ["10.244.2.0/24"]);
      assert.deepEqual(routed(nodes)["c"], ["10.244.3.0/24", "fd00:244:3::/64"]);
      assert.match(problemsOf(nodes), why);
    });
  }

  it("D1: a node with this node's address, and addresses nobody can have, are told and not used", () => {
    const nodes = [
      A,
      node("b", ["192.0.2.1"], ["10.244.2.0/24"]),
      node("d", ["127.0.0.1", "fe80::1"], ["10.244.4.0/24"]),
    ];
    const { others } = judgeNodes(nodes, "a");
    assert.deepEqual(
      others.map(({ name, primary }) => [name, primary]),
      [["d", undefined]],
    );
    assert.match(problemsOf(nodes), /Node b: InternalIP 192\.0\.2\.1 is this node's/);
    assert.match(problemsOf(nodes), /Node d: InternalIP 127\.0\.0\.1 is no address of a node/);
  });

  it("D1: whatever the Nodes say, no address is routed to two of them with the same prefix, and no node's address at all", () => {
    const cidr = fc
      .tuple(fc.integer({ min: 0, max: 7 }), fc.integer({ min: 22, max: 27 }))
      .map(([third, length]) => `10.244.${third & ~((1 << Math.max(0, 24 - length)) - 1)}.0/${length}`);
    const one = fc.tuple(
      fc.uniqueArray(fc.integer({ min: 1, max: 40 }), { maxLength: 2 }),
      fc.array(cidr, { maxLength: 3 }),
    );
    fc.assert(
      fc.property(fc.array(one, { maxLength: 8 }), (drawn) => {
        const nodes = drawn.map(([hosts, cidrs], place) =>
          node(
            String.fromCodePoint(97 + place),
            hosts.map((host) => `10.244.${host % 8}.${host}`),
            cidrs,
          ),
        );
        const { others } = judgeNodes(nodes, "a");
        const all = others.flatMap(({ podCidrs }) => podCidrs);
        assert.equal(new Set(all.map(formatCidr)).size, all.length);
        const taken = nodes.flatMap(({ addresses }) => addresses.map(({ address }) => address));
        for (const found of all) {
          assert.equal(familyOf(found.address), 4);
          assert.ok(!taken.some((address) => cidrContains(found, address)), formatCidr(found));
        }
        for (const own of nodes[0]?.podCidrs ?? []) {
          assert.ok(!all.some((found) => cidrContains(own, found.address) || cidrContains(found, own.address)));
        }
      }),
    );
  });
});

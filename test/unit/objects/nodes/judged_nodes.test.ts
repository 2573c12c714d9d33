import assert from "node:assert/strict";
import fc from "fast-check";
import { type Address, formatAddress } from "../../../../kernel/ip/address.ts";
import { cidrContains, doOverlap, formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../../../objects/nodes/judged_nodes.ts";
import type { Node } from "../../../../objects/model.ts";
import { type JudgedNodes, type JudgeOptions, problemsIn } from "../../../../objects/nodes/node_verdict.ts";
import { node } from "../../../support/routes/machine.ts";

const A = node("a", ["192.0.2.1"], ["10.244.1.0/24", "fd00:244:1::/64"]);
const C = node("c", ["192.0.2.3", "2001:db8::3"], ["10.244.3.0/24", "fd00:244:3::/64"]);

function judged(nodes: readonly Node[], options: Partial<JudgeOptions> = {}): JudgedNodes {
  return judgeNodes(nodes, { nodeName: "a", ...options });
}

const cidrsOf = (verdict: JudgedNodes, name: string): readonly string[] =>
  verdict.nodes.get(name)?.podCidrs.map(formatCidr) ?? [];
const addressesOf = (verdict: JudgedNodes, name: string): readonly string[] =>
  verdict.nodes.get(name)?.addresses.map(formatAddress) ?? [];

describe("objects/nodes/judged_nodes", () => {
  it("D1: a CIDR that two Nodes have is used for neither and reported for both; their other CIDRs are used", () => {
    const verdict = judged([A, node("b", ["192.0.2.2"], ["10.244.3.0/24", "fd00:244:2::/64"]), C]);
    assert.deepEqual(cidrsOf(verdict, "b"), ["fd00:244:2::/64"]);
    assert.deepEqual(cidrsOf(verdict, "c"), ["fd00:244:3::/64"]);
    assert.deepEqual(problemsIn(verdict), [
      "Node b: pod CIDR 10.244.3.0/24 overlaps 10.244.3.0/24 of Node c; it is not used",
      "Node c: pod CIDR 10.244.3.0/24 overlaps 10.244.3.0/24 of Node b; it is not used",
    ]);
  });

  for (const [thief, what] of [
    ["10.244.3.128/25", "a part"],
    ["10.244.2.0/23", "more"],
    ["10.244.3.0/24", "the same"],
  ] as const) {
    it(`D1: a Node that claims ${what} of another node's pod CIDR gets none of it; the other keeps it if it had it earlier`, () => {
      const b = node("b", ["192.0.2.2"], [thief]);
      const both = judged([A, b, C]);
      assert.deepEqual(cidrsOf(both, "b"), []);
      assert.deepEqual(cidrsOf(both, "c"), ["fd00:244:3::/64"]);
      const later = judged([A, b, C], { earlier: judged([A, C]) });
      assert.deepEqual(cidrsOf(later, "b"), []);
      assert.deepEqual(cidrsOf(later, "c"), ["10.244.3.0/24", "fd00:244:3::/64"]);
      assert.equal(problemsIn(later).length, 1);
    });

    it(`D1: no other Node gets ${what} of this node's pod CIDR, also while the own Node has none yet`, () => {
      const b = node("b", ["192.0.2.2"], [thief]);
      const own = node("a", ["192.0.2.1"], ["10.244.3.0/24"]);
      for (const nodes of [
        [own, b],
        [b, own],
      ]) {
        const verdict = judged(nodes, { earlier: judged([b]) });
        assert.deepEqual([cidrsOf(verdict, "a"), cidrsOf(verdict, "b")], [["10.244.3.0/24"], []]);
      }
      const verdict = judged([node("a", ["192.0.2.1"], []), b], { ownCidrs: [parseCidr("10.244.3.0/24")] });
      assert.deepEqual([cidrsOf(verdict, "a"), cidrsOf(verdict, "b")], [["10.244.3.0/24"], []]);
    });
  }

  it("D1: a Node's addresses in pod CIDRs of other Nodes are not used, and those Nodes lose nothing", () => {
    const thief = node("b", ["10.244.3.7", "10.244.1.7", "192.0.2.2"], ["10.244.2.0/24"]);
    const verdict = judged([A, thief, C]);
    assert.deepEqual(cidrsOf(verdict, "c"), ["10.244.3.0/24", "fd00:244:3::/64"]);
    assert.deepEqual(cidrsOf(verdict, "a"), ["10.244.1.0/24", "fd00:244:1::/64"]);
    assert.deepEqual(addressesOf(verdict, "b"), ["192.0.2.2"]);
    assert.deepEqual(problemsIn(verdict), [
      "Node b: InternalIP 10.244.3.7 is in a pod CIDR of Node c; it is not used",
      "Node b: InternalIP 10.244.1.7 is in a pod CIDR of Node a; it is not used",
    ]);
  });

  it("D1: a new pod CIDR takes no other Node's first address away if that was used before, but does take a further one", () => {
    const b = node("b", ["192.0.2.2"], ["198.51.100.0/28"]);
    const d = node("d", ["198.51.100.3"], []);
    const later = judged([A, b, d], { earlier: judged([A, d]) });
    assert.deepEqual([cidrsOf(later, "b"), addressesOf(later, "d")], [[], ["198.51.100.3"]]);
    assert.match(
      problemsIn(later).join(),
      /Node b: pod CIDR 198\.51\.100\.0\/28 has the address 198\.51\.100\.3 of Node d/,
    );
    const known = judged([A, b, d], { earlier: judged([A, b]) });
    assert.deepEqual([cidrsOf(known, "b"), addressesOf(known, "d")], [["198.51.100.0/28"], []]);
    const second = node("d", ["198.51.101.3", "198.51.100.3"], []);
    const further = judged([A, b, second], { earlier: judged([A, second]) });
    assert.deepEqual([cidrsOf(further, "b"), addressesOf(further, "d")], [["198.51.100.0/28"], ["198.51.101.3"]]);
  });

  it("D1: another Node gets neither this node's address nor one that no node can have", () => {
    const b = node("b", ["192.0.2.1"], ["10.244.2.0/24"]);
    const d = node("d", ["127.0.0.1", "fe80::1", "0.0.0.0", "224.0.0.9", "ff02::1"], ["10.244.4.0/24"]);
    const verdict = judged([A, b, d], { earlier: judged([b]) });
    assert.deepEqual(
      ["a", "b", "d"].map((name) => addressesOf(verdict, name)),
      [["192.0.2.1"], [], []],
    );
    assert.match(problemsIn(verdict).join("\n"), /^Node b: InternalIP 192\.0\.2\.1 is this node's; it is not used$/m);
    assert.match(problemsIn(verdict).join("\n"), /^Node d: InternalIP 127\.0\.0\.1 is not an address of a node/m);
  });

  for (const [cidr, why] of [
    ["0.0.0.0/0", /larger than a \/8/],
    ["0.0.0.0/1", /larger than a \/8/],
    ["10.0.0.0/7", /larger than a \/8/],
    ["::/0", /larger than a \/16/],
    ["fc00::/15", /larger than a \/16/],
    ["127.0.1.0/24", /overlaps 127\.0\.0\.0\/8/],
    ["169.0.0.0/8", /overlaps 169\.254\.0\.0\/16/],
    ["224.1.0.0/24", /overlaps 224\.0\.0\.0\/4/],
    ["fe80::/64", /overlaps fe80::\/10/],
    ["::/64", /overlaps/],
    ["192.0.2.0/28", /has the address 192\.0\.2\.1 of Node a/],
    ["10.96.128.0/24", /overlaps 10\.96\.0\.0\/16, a range of Services/],
    ["fd00::/17", /overlaps fd00:96::\/112, a range of Services/],
  ] as const) {
    it(`D1: ${cidr} is not used as a pod CIDR`, () => {
      const serviceCidrs = ["10.96.0.0/16", "fd00:96::/112"].map((text) => parseCidr(text));
      const verdict = judged([A, node("b", ["192.0.2.2"], [cidr, "10.244.2.0/24"]), C], { serviceCidrs });
      assert.deepEqual(cidrsOf(verdict, "b"), ["10.244.2.0/24"]);
      assert.deepEqual(cidrsOf(verdict, "c"), ["10.244.3.0/24", "fd00:244:3::/64"]);
      assert.match(problemsIn(verdict).join("\n"), why);
    });
  }

  it("D1: a Node's address in a range of Services is not used, unless the range holds this node's own address", () => {
    const serviceCidrs = [parseCidr("10.96.0.0/16"), parseCidr("192.0.2.0/24")];
    const verdict = judged([A, node("b", ["10.96.0.1", "192.0.2.2"], [])], { serviceCidrs });
    assert.deepEqual(addressesOf(verdict, "b"), ["192.0.2.2"]);
    assert.deepEqual(addressesOf(verdict, "a"), ["192.0.2.1"]);
  });

  for (const [what, first] of [
    ["its bridge's", (host: number) => `10.244.${host}.1`],
    ["docker0's", () => "172.17.0.1"],
    ["a VIP that moves", () => "192.0.2.100"],
    ["a pod's of its own", (host: number) => `10.244.${host}.77`],
    ["an earlier gateway's in another Node's pod CIDR", (host: number) => `10.244.${(host % 3) + 1}.1`],
    ["a Service's, as of kube-ipvs0,", (host: number) => `10.96.0.${host}`],
    ["a link-local", () => "169.254.20.10"],
  ] as const) {
    it(`D1: all nodes choose the same address of each Node, which names ${what} address first`, () => {
      const hosts = [1, 2, 3];
      const nodes = hosts.map((host) => node(`n${host}`, [first(host), `192.0.2.${host}`], [`10.244.${host}.0/24`]));
      const before = judged([nodes[0] ?? assert.fail()], { nodeName: "n1" });
      for (const host of hosts)
        for (const earlier of [undefined, before]) {
          const verdict = judged(nodes, { nodeName: `n${host}`, earlier, serviceCidrs: [parseCidr("10.96.0.0/16")] });
          const used = hosts.map((one) => addressesOf(verdict, `n${one}`));
          assert.deepEqual(used, [["192.0.2.1"], ["192.0.2.2"], ["192.0.2.3"]]);
          assert.equal(problemsIn(verdict).length, 3);
        }
    });
  }

  it("D1: for any Nodes, no two share an address or have overlapping CIDRs, and this node keeps the best of its own", () => {
    const cidr = fc
      .tuple(fc.integer({ min: 0, max: 7 }), fc.integer({ min: 22, max: 27 }))
      .map(([third, length]) => `10.244.${third & ~((1 << Math.max(0, 24 - length)) - 1)}.0/${length}`);
    const member = fc.tuple(
      fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 2 }),
      fc.array(cidr, { maxLength: 2 }),
    );
    const cluster = fc.array(member, { maxLength: 8 }).map((drawn) =>
      drawn.map(([hosts, cidrs], place) =>
        node(
          String.fromCodePoint(97 + place),
          hosts.map((host) => `10.244.${host % 16}.${host}`),
          cidrs,
        ),
      ),
    );
    fc.assert(
      fc.property(cluster, cluster, (before, nodes) => {
        const verdict = judged(nodes, { earlier: judged(before) });
        const all = [...verdict.nodes.values()];
        for (const one of all) {
          for (const other of all) {
            if (one === other) continue;
            assert.ok(!one.podCidrs.some((a) => other.podCidrs.some((b) => doOverlap(a, b))));
            assert.ok(!one.addresses.some((address) => other.addresses.includes(address)));
            assert.ok(other.name === "a" || !one.podCidrs.some((a) => other.addresses.some((b) => cidrContains(a, b))));
          }
        }
        const own = nodes.find(({ name }) => name === "a");
        assert.deepEqual(new Set(cidrsOf(verdict, "a")), new Set(own?.podCidrs.map(formatCidr)));
        const named = nodes.flatMap(({ addresses }) => [...new Set(addresses.map(({ address }) => address))]);
        const isBetter = (address: Address): boolean => !own?.podCidrs.some((one) => cidrContains(one, address));
        const better = (own?.addresses ?? []).map(({ address }) => address).filter(isBetter);
        const isOfPods = (address: Address): boolean =>
          all.some(({ podCidrs }) => podCidrs.some((one) => cidrContains(one, address)));
        const best = better.filter((one) => named.filter((other) => other === one).length === 1 && !isOfPods(one));
        assert.deepEqual(
          new Set(addressesOf(verdict, "a")),
          new Set((best.length > 0 ? best : better).map(formatAddress)),
        );
      }),
    );
  });
});

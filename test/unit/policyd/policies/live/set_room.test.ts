import assert from "node:assert/strict";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { ClusterNetworkPolicy, ClusterObject, NetworkPolicy, Pod } from "../../../../../objects/model.ts";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { GroupIndex } from "../../../../../policyd/policies/live/index/group_index.ts";
import { SetCollector } from "../../../../../policyd/policies/compile/sets/set_collector.ts";
import { MemberSets } from "../../../../../policyd/policies/live/sets/member_sets.ts";
import type { RoomBounds } from "../../../../../policyd/policies/live/sets/set_room.ts";
import { gone, type LiveEvent, LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";

const PEERS = 40;
/** The largest number of rules that are printed one by one; more rules share a set with an element per pod and port. */
const FEW = 8;
const PLENTY = { share: 1_000_000, pool: 0 };

/** A pod of another node that every selector of {@link policy} selects. */
function peer(number: number, labels: Pod["labels"] = { app: "peer" }): Pod {
  return objectOf("Pod", {
    metadata: { name: `p${number}`, namespace: "peers", labels },
    spec: { nodeName: "node2", containers: [] },
    status: { phase: "Running", podIPs: [{ ip: `10.1.0.${number}` }, { ip: `fd00::${number}` }] },
  });
}

/** A pod of this node. */
function local(namespace: string, number: number): readonly LiveEvent[] {
  const name = `db${number}`;
  const pod = objectOf("Pod", {
    metadata: { name, namespace, labels: { name } },
    spec: { nodeName: "node1", containers: [] },
    status: { phase: "Running", podIPs: [{ ip: `10.0.0.${number}` }] },
  });
  return [
    { type: "objects", changes: [set(pod)] },
    { type: "attached", attachment: attachmentOf(pod, [`10.0.0.${number}`]) },
  ];
}

/**
 * A policy with a number of rules, each with a separate selector of all peers and a separate port. Policies with equal
 * keys use the same sets.
 *
 * @param name the only pod that it selects; undefined for all
 */
function policy(namespace: string, rules: number, keys = namespace, name?: string): NetworkPolicy {
  const ingress = Array.from({ length: rules }, (_, number) => ({
    from: [
      {
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "peers" } },
        podSelector: { matchExpressions: [{ key: `${keys}${number}`, operator: "DoesNotExist" }] },
      },
    ],
    ports: [{ protocol: "TCP", port: number + 1 }],
  }));
  const podSelector = name === undefined ? {} : { matchLabels: { name } };
  return objectOf("NetworkPolicy", { metadata: { name: name ?? "np", namespace }, spec: { podSelector, ingress } });
}

/** A policy for one pod with a number of blocks, the same for equal numbers. */
function blocks(namespace: string, name: string, count: number): NetworkPolicy {
  const from = Array.from({ length: count }, (_, block) => ({ ipBlock: { cidr: `10.9.${block}.${count}/32` } }));
  const podSelector = { matchLabels: { name } };
  return objectOf("NetworkPolicy", { metadata: { name, namespace }, spec: { podSelector, ingress: [{ from }] } });
}

/** Accepts what some peers send to all pods, or what these send to them. */
function accept(rule: { readonly from: readonly object[] } | { readonly to: readonly object[] }): ClusterNetworkPolicy {
  return objectOf("ClusterNetworkPolicy", {
    metadata: { name: "accept" },
    spec: {
      tier: "Admin",
      priority: 1,
      subject: { namespaces: {} },
      ["from" in rule ? "ingress" : "egress"]: [{ action: "Accept", ...rule }],
    },
  });
}

/** The peer of the first rule of a policy of namespace "a". */
const FIRST = {
  pods: {
    namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "peers" } },
    podSelector: { matchExpressions: [{ key: "a0", operator: "DoesNotExist" }] },
  },
};

describe("policyd/policies/live: the room for sets of NetworkPolicies", () => {
  const peers = (count: number): readonly ClusterObject[] => Array.from({ length: count }, (_, i) => peer(i + 1));

  /** A node with a pod of each namespace, and a number of peers elsewhere. */
  function nodeOf(namespaces: readonly string[], count: number, roomBounds?: RoomBounds): LiveNode {
    const known = [
      { type: "objects", changes: peers(count).map(set) } as const,
      ...namespaces.flatMap((namespace, number) => local(namespace, number + 1)),
    ];
    const bounds = roomBounds === undefined ? {} : { roomBounds };
    const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(1), known, ...bounds });
    node.settle();
    return node;
  }

  /** The numbers of elements in the sets of peers, over both families. */
  function sizes(node: LiveNode): readonly number[] {
    const names = node.provided().filter((name) => name.endsWith("_v4") && /^(flat|pods|peers|group)/.test(name));
    return names.map((name) => node.elements(name).length + node.elements(name.replace(/4$/, "6")).length);
  }

  it("POL-93: where two namespaces have used up the pool, a third gets its share, and nobody loses anything to it or to pods that come", () => {
    const each = PEERS * 2 * 10;
    const elements = { share: 100, pool: 2 * each };
    const node = nodeOf(["a", "b", "c"], 10, { set: 100_000, elements, selections: PLENTY, sets: PLENTY });
    const filled = (): readonly number[] => sizes(node).toSorted((a, b) => a - b);
    node.change(set(policy("a", PEERS)));
    node.change(set(policy("b", PEERS + 5)));
    node.change(set(policy("c", PEERS)));
    assert.deepEqual(filled(), [0, each, each + 100]);
    assert.match(node.component.problems().join(), /^NetworkPolicies c\/np/);
    node.change(set(policy("c", 5)));
    assert.deepEqual(filled(), [20, 20, 20, 20, 20, each, each + 100]);
    assert.deepEqual(node.component.problems(), []);
    // Two more elements for each rule: 80 of the last 100 for a, which leaves 10 for c, but not 90 for b.
    node.change(set(peer(11)));
    assert.deepEqual(filled(), [22, 22, 22, 22, 22, each + 80, each + 100]);
    assert.deepEqual(
      node.component.problems().map((problem) => problem.slice(0, 21)),
      ["NetworkPolicies b/np:"],
    );
    node.change(gone(policy("a", PEERS)));
    node.change(set(peer(12)));
    assert.deepEqual(filled(), [24, 24, 24, 24, 24, each + 280]);
  });

  it("POL-93: a set that policies of two namespaces use counts for one of them, and for the other once the first no longer uses it", () => {
    const node = nodeOf(["a", "b"], 10, {
      set: 100_000,
      elements: { share: 1200, pool: 0 },
      selections: PLENTY,
      sets: PLENTY,
    });
    const change = (object: NetworkPolicy): readonly number[] => {
      node.change(set(object));
      return sizes(node).toSorted((a, b) => a - b);
    };
    change(policy("a", 40, "both"));
    assert.deepEqual(change(policy("b", 40, "both")), [800]);
    node.change(gone(policy("a", 40, "both")));
    assert.deepEqual(change(policy("a", 60)), [800, 1200], "what a had of both does not count for it any more");
    for (const rules of [80, 75]) assert.deepEqual(change(policy("b", rules)), [0, 1200]);
    assert.deepEqual(change(policy("b", 60)), [1200, 1200]);
  });

  it("POL-93: where a namespace's selectors select more labels than it has room for, their set stays without pods until they select fewer", () => {
    const node = nodeOf(["a"], 10, {
      set: 100_000,
      elements: PLENTY,
      selections: { share: PEERS - 1, pool: 0 },
      sets: PLENTY,
    });
    node.change(set(policy("a", PEERS)));
    assert.deepEqual(sizes(node), [0]);
    node.change(set(policy("a", PEERS - 1)));
    assert.deepEqual(sizes(node), [(PEERS - 1) * 20]);
  });

  it("POL-93: policies without room for their sets isolate, allow nothing and are reported until they need fewer", () => {
    const sets = { share: 2 * FEW, pool: 0 };
    const node = nodeOf(["a", "b"], 10, { set: 100_000, elements: PLENTY, selections: PLENTY, sets });
    node.change(set(policy("a", FEW - 1)));
    assert.equal(Math.max(...sizes(node)), 20);
    node.change(set(policy("a", 4, "more", "db1")));
    assert.deepEqual(sizes(node), [], "the pod needs the sets of both now, and nothing of the former list is left");
    assert.deepEqual(
      [node.component.problems().map((text) => text.slice(0, 28)), node.component.live.setTotals().closed],
      [["NetworkPolicies a/db1, a/np:"], 1],
    );
    node.change(set(policy("b", FEW)));
    assert.equal(sizes(node).length, FEW, "another namespace has its own share");
    node.change(gone(policy("b", FEW)));
    node.change(set(policy("a", 1, "more", "db1")));
    assert.deepEqual([sizes(node).length, node.component.problems()], [FEW, []]);
  });

  it("POL-93: a set that several lists of policies of a namespace need counts once, and lists without room get it once others have gone", () => {
    const sets = { share: 2 * FEW, pool: 0 };
    const node = nodeOf(["a", "a"], 10, { set: 100_000, elements: PLENTY, selections: PLENTY, sets });
    const found = () => [sizes(node).length, node.component.live.setTotals().closed];
    node.change(set(policy("a", FEW - 2)));
    for (const name of ["db1", "db2"]) node.change(set(policy("a", 1, "own", name)));
    node.change(set(policy("a", 0, "last", "db1")));
    assert.deepEqual(found(), [FEW - 1, 0], "two lists, with the same sets");
    node.change(set(policy("a", 3, "own", "db2")));
    assert.deepEqual(found(), [FEW - 2, 1]);
    for (const event of local("a", 3)) node.apply(event);
    node.change(set(policy("a", 3, "own", "db3")));
    assert.deepEqual(found(), [FEW - 2, 2]);
    node.change(set(policy("a", FEW - 3)));
    assert.deepEqual(found(), [FEW, 0]);
    node.change(set(policy("a", FEW)), gone(policy("a", 3, "own", "db3")));
    assert.deepEqual(found(), [FEW, 1]);
    node.change(gone(policy("a", 3, "own", "db2")));
    assert.deepEqual(found(), [FEW, 0]);
  });

  it("POL-93: a set that a ClusterNetworkPolicy also uses keeps all its elements", () => {
    const node = nodeOf(["a"], 10, { set: 1, elements: PLENTY, selections: PLENTY, sets: PLENTY });
    node.change(set(policy("a", FEW)));
    assert.ok(sizes(node).every((size) => size === 0));
    node.change(set(accept({ from: [FIRST] })));
    assert.equal(Math.max(...sizes(node)), 20);
    node.change(gone(accept({ from: [FIRST] })));
    assert.equal(Math.max(...sizes(node)), 20, "it is in force by now");
  });

  /** Namespace a has two pods, b one. */
  const shared = (elements: number, selections = PLENTY.share): LiveNode =>
    nodeOf(["a", "a", "b"], 10, {
      set: 100_000,
      elements: { share: elements, pool: 0 },
      selections: { share: selections, pool: 0 },
      sets: PLENTY,
    });

  const sum = (node: LiveNode): number => sizes(node).reduce((all, size) => all + size, 0);
  const restricted = (node: LiveNode): readonly string[] =>
    node.component.problems().map((problem) => problem.slice(0, problem.indexOf(":")));

  for (const rules of [5, PEERS]) {
    it(`POL-93: ${rules} sets that a namespace shares that has used up its room count for another that has some`, () => {
      const node = shared(1200);
      node.change(set(policy("a", 60, "a", "db1")));
      node.change(set(policy("a", rules, "both", "db2")));
      assert.deepEqual([sum(node), restricted(node)], [1200, ["NetworkPolicies a/db2"]]);
      node.change(set(policy("b", rules, "both")));
      assert.deepEqual([sum(node), restricted(node)], [1200 + rules * 20, []]);
      node.change(set(peer(11)));
      assert.deepEqual([sum(node), restricted(node)], [1200 + rules * 22, ["NetworkPolicies a/db1"]]);
    });

    it(`POL-93: pods that come are added to ${rules} shared sets whose first namespace has used up its room since`, () => {
      const node = shared(1200);
      node.change(set(policy("a", rules, "both", "db2")));
      node.change(set(policy("b", rules, "both")));
      node.change(set(policy("a", 60, "a", "db1")));
      assert.deepEqual([sum(node), restricted(node)], [rules * 20, ["NetworkPolicies a/db1"]]);
      node.change(set(policy("a", 60 - rules, "a", "db1")));
      assert.deepEqual([sum(node), restricted(node)], [1200, []]);
      for (const one of [11, 12, 13]) node.change(set(peer(one)));
      const own = (60 - rules) * 20;
      assert.ok(sum(node) >= own + rules * 26, String(sum(node)));
      assert.ok(!restricted(node).includes("NetworkPolicies b/np"));
    });
  }

  it("POL-93: sets without room are filled once other sets or other pods make room", () => {
    const node = shared(1200);
    node.change(set(policy("a", 60, "a", "db1")));
    node.change(set(policy("a", 50, "few", "db2")));
    node.change(set(peer(11)));
    assert.deepEqual([sum(node), restricted(node)], [1200, ["NetworkPolicies a/db1", "NetworkPolicies a/db2"]]);
    node.change(gone(peer(1)));
    assert.deepEqual([sum(node), restricted(node)], [1200, ["NetworkPolicies a/db2"]]);
    node.change(gone(policy("a", 60, "a", "db1")));
    assert.deepEqual([sum(node), restricted(node)], [50 * 20, []]);
  });

  it("POL-93: labels that come are refused by selectors without room for them until there is, except for ClusterNetworkPolicies", () => {
    const node = shared(PLENTY.share, 2 * FEW);
    node.change(set(policy("a", FEW, "a", "db1")));
    node.change(set(peer(11, { app: "second" })));
    assert.deepEqual([sum(node), restricted(node)], [FEW * 22, []]);
    node.change(set(peer(12, { app: "third" })));
    assert.deepEqual([sum(node), restricted(node)], [FEW * 22, ["NetworkPolicies a/db1"]]);
    node.change(set(accept({ from: [FIRST] })));
    // The first selector no longer counts, which leaves two others room for one more.
    assert.deepEqual([sum(node), restricted(node)], [FEW * 22 + 6, ["NetworkPolicies a/db1"]]);
    node.change(gone(accept({ from: [FIRST] })));
    assert.deepEqual([sum(node), restricted(node)], [FEW * 22 + 6, ["NetworkPolicies a/db1"]]);
    node.change(set(policy("b", FEW, "a")));
    assert.deepEqual([sum(node), restricted(node)], [FEW * 24, []]);
    node.change(gone(policy("b", FEW, "a")));
    node.change(set(peer(13, { app: "fourth" })));
    assert.deepEqual([sum(node), restricted(node)], [FEW * 24, ["NetworkPolicies a/db1"]]);
    for (const [one, app] of [
      [11, "second"],
      [12, "third"],
    ] as const)
      node.change(gone(peer(one, { app })));
    assert.deepEqual([sum(node), restricted(node)], [FEW * 22, []]);
  });

  it("POL-93: a ClusterNetworkPolicy waits for the elements that a set in force lacks", () => {
    const groups = new GroupIndex();
    const rules = { claim: () => {}, provide: () => {} };
    const one = { share: 1, pool: 0 };
    const sets = new MemberSets(rules, groups, () => {}, { set: 10, elements: one, selections: one, sets: one });
    const collector = new SetCollector("allowing");
    const group = {
      type: "pods",
      key: "all",
      namespace: "a",
      namespaceSelector: undefined,
      podSelector: undefined,
    } as const;
    const name = collector.members("pods", [{ group, ports: { type: "none" } }]);
    const [held] = collector.memberSets();
    assert.ok(held !== undefined);
    const settle = (pod: string, address: string): void => {
      const identity = groups.add(pod, "a", {});
      sets.settle(pod, { identity, addresses: [parseAddress(address)], ports: [], shared: new Map() });
    };
    sets.hold(held, "a");
    settle("first", "10.1.0.1");
    sets.filled(name);
    settle("second", "10.1.0.2");
    sets.hold(held, "a");
    assert.deepEqual([sets.totals().elements, sets.totals().closed, [...sets.missing([name])]], [1, 1, []]);
    sets.hold({ ...held, isAllowing: false }, "");
    assert.deepEqual([...sets.missing([name])], ["first", "second"]);
    settle("second", "10.1.0.2");
    sets.room.retry();
    assert.deepEqual([sets.totals().elements, sets.totals().closed, [...sets.missing([name])]], [2, 0, []]);
  });

  it("POL-93: blocks count as elements, and stay without room until a policy of a namespace that has some needs them", () => {
    const node = shared(148);
    const elements = (): number =>
      node
        .provided()
        .filter((name) => name.startsWith("ranges"))
        .reduce((all, name) => all + node.elements(name).length, 0);
    node.change(set(blocks("a", "db1", 90)));
    node.change(set(blocks("a", "db2", 80)));
    assert.deepEqual([elements(), restricted(node)], [90, ["NetworkPolicies a/db2"]]);
    node.change(set(blocks("b", "db3", 80)));
    assert.deepEqual([elements(), restricted(node)], [170, []]);
    node.change(set(policy("a", 7, "a", "db2")));
    const holes = Array.from({ length: 8 }, (_, index) => 4 * index + 1);
    const ipBlock = { cidr: "10.9.0.0/27", except: holes.map((hole) => `10.9.0.${hole}/32`) };
    const spec = {
      podSelector: { matchLabels: { name: "db1" } },
      policyTypes: ["Egress"],
      egress: [{ to: [{ ipBlock }] }],
    };
    node.change(gone(blocks("a", "db1", 90)));
    node.change(set(objectOf("NetworkPolicy", { metadata: { name: "holes", namespace: "a" }, spec })));
    assert.deepEqual([elements(), sum(node), restricted(node)], [80, 140, ["NetworkPolicies a/holes"]]);
    const networks = ["10.9.0.0/32", ...holes.flatMap((hole) => [`10.9.0.${hole + 1}/31`, `10.9.0.${hole + 3}/32`])];
    const to = [{ networks: networks.slice(0, -1) }];
    node.change(set(accept({ to })));
    assert.deepEqual([elements(), restricted(node)], [80 + 9, []], "it needs the same set whole");
    node.change(gone(accept({ to })));
    assert.equal(elements(), 80 + 9, "it is in force by now");
  });
});

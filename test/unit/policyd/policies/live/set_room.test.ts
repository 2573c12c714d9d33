import assert from "node:assert/strict";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { ClusterObject, NetworkPolicy, Pod } from "../../../../../objects/model.ts";
import { GroupIndex } from "../../../../../policyd/policies/live/index/group_index.ts";
import type { PodGroup } from "../../../../../policyd/policies/compile/profile.ts";
import type { RoomBounds } from "../../../../../policyd/policies/live/sets/set_room.ts";
import { gone, type LiveEvent, LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";

const PEERS = 40;
/** The largest number of rules that are printed one by one; more rules share a set with an element per pod and port. */
const FEW = 8;
const PLENTY = { share: 1_000_000, pool: 0 };

/** A pod of another node that every selector of {@link policy} selects. */
function peer(number: number): Pod {
  return objectOf("Pod", {
    metadata: { name: `p${number}`, namespace: "peers", labels: { app: "peer" } },
    spec: { nodeName: "node2", containers: [] },
    status: { phase: "Running", podIPs: [{ ip: `10.1.0.${number}` }, { ip: `fd00::${number}` }] },
  });
}

/** A pod of this node, the only one in its namespace. */
function local(namespace: string, number: number): readonly LiveEvent[] {
  const pod = objectOf("Pod", {
    metadata: { name: "db", namespace, labels: {} },
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
 */
function policy(namespace: string, rules: number, keys = namespace): NetworkPolicy {
  const ingress = Array.from({ length: rules }, (_, number) => ({
    from: [
      {
        namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "peers" } },
        podSelector: { matchExpressions: [{ key: `${keys}${number}`, operator: "DoesNotExist" }] },
      },
    ],
    ports: [{ protocol: "TCP", port: number + 1 }],
  }));
  return objectOf("NetworkPolicy", { metadata: { name: "np", namespace }, spec: { podSelector: {}, ingress } });
}

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
    const node = nodeOf(["a", "b", "c"], 10, { set: 100_000, elements, selections: PLENTY });
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
    const node = nodeOf(["a", "b"], 10, { set: 100_000, elements: { share: 1200, pool: 0 }, selections: PLENTY });
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

  it("POL-93 SHARE-08: selectors that select more than they may, or are checked too often, are not followed at all", () => {
    const index = new GroupIndex();
    const pods = Array.from({ length: 100 }, (_, pod) => index.addPod(`pod${pod}`, "a", { pod: String(pod) }));
    const groups = (operator: "DoesNotExist" | "Exists"): readonly PodGroup[] =>
      Array.from({ length: 10 }, (_, group) => {
        const podSelector = { matchLabels: {}, matchExpressions: [{ key: `k${group}`, operator, values: [] }] };
        const key = `${operator}${group}`;
        return { type: "pods", key, namespace: "a", namespaceSelector: undefined, podSelector };
      });
    const [all, none] = [groups("DoesNotExist"), groups("Exists")];
    assert.deepEqual([index.activate(all, 999), index.activate(none, 249)], [undefined, undefined]);
    assert.ok([...all, ...none].every(({ key }) => !index.isActive(key)));
    assert.ok(pods.every(({ groups: own }) => own.size === 0));
    assert.deepEqual([index.activate(all, 1000), index.activate(none, 250)], [1000, 0]);
    const node = nodeOf(["a"], 10, { set: 100_000, elements: PLENTY, selections: { share: PEERS - 1, pool: 0 } });
    node.change(set(policy("a", PEERS)));
    assert.deepEqual(sizes(node), [0]);
    node.change(set(policy("a", PEERS - 1)));
    assert.deepEqual(sizes(node), [(PEERS - 1) * 20]);
  });

  it("POL-93: a set that a ClusterNetworkPolicy also uses keeps all its elements", () => {
    const node = nodeOf(["a"], 10, { set: 1, elements: PLENTY, selections: PLENTY });
    node.change(set(policy("a", FEW)));
    assert.ok(sizes(node).every((size) => size === 0));
    const selector = {
      namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "peers" } },
      podSelector: { matchExpressions: [{ key: "a0", operator: "DoesNotExist" }] },
    };
    const accept = objectOf("ClusterNetworkPolicy", {
      metadata: { name: "accept" },
      spec: {
        tier: "Admin",
        priority: 1,
        subject: { namespaces: {} },
        ingress: [{ action: "Accept", from: [{ pods: selector }] }],
      },
    });
    node.change(set(accept));
    assert.equal(Math.max(...sizes(node)), 20);
    node.change(gone(accept));
    assert.equal(Math.max(...sizes(node)), 20, "it is in force by now");
  });
});

import assert from "node:assert/strict";
import type { AttachmentRecord } from "../../../../../attachment/attachment.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { Nftables } from "../../../../../kernel/nftables/socket.ts";
import type { ClusterNetworkPolicy, NetworkPolicy, ObjectChange, Pod } from "../../../../../objects/model.ts";
import { observed } from "../../../../../policyd/metrics/commit_observer.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import { LivePolicies } from "../../../../../policyd/policies/live/live_policies.ts";
import { POLICY_TABLE } from "../../../../../policyd/policies/compile/policy_table.ts";
import { emptyTargets } from "../../../../support/ruleset/empty_targets.ts";
import { gone, type LiveEvent, LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";

const PODS = 2000;
/** More than one batch takes. */
const PROFILES = 60;
/** Milliseconds that each piece of work takes. */
const TICK = 1 / 16;

function pod(number: number, labels: Readonly<Record<string, string>> = { app: "web" }): Pod {
  return objectOf("Pod", {
    metadata: { name: `p${number}`, namespace: number < 10 || "own" in labels ? "local" : "peers", labels },
    spec: { nodeName: number < 10 || "own" in labels ? "node1" : "node2" },
    status: { phase: "Running", podIPs: [{ ip: `10.${number >> 16}.${(number >> 8) & 255}.${number & 255}` }] },
  });
}

/** The attachment of the pod of this number. */
function attached(number: number): AttachmentRecord {
  return attachmentOf({ namespace: "local", name: `p${number}`, uid: "" }, [`10.0.0.${number}`]);
}

const NAMESPACE = objectOf("Namespace", { metadata: { name: "peers", labels: { team: "a" } } });

const FROM_PEERS = objectOf("NetworkPolicy", {
  metadata: { name: "from-peers", namespace: "local" },
  spec: {
    podSelector: { matchLabels: { app: "db" } },
    ingress: [{ from: [{ namespaceSelector: { matchLabels: { team: "a" } } }] }],
  },
});

const FROM_LABELLED = objectOf("NetworkPolicy", {
  metadata: { name: "from-labelled", namespace: "local" },
  spec: {
    podSelector: { matchLabels: { app: "db" } },
    ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { role: "client" } } }] }],
  },
});

/** Lets nothing reach the pod of this number. */
function denying(number: number): NetworkPolicy {
  return objectOf("NetworkPolicy", {
    metadata: { name: `deny${number}`, namespace: "local" },
    spec: { podSelector: { matchLabels: { own: `${number}` } }, policyTypes: ["Ingress"] },
  });
}

const LOCAL = objectOf("Namespace", { metadata: { name: "local", labels: {} } });

/** Denies what reaches pods of some namespaces. */
function clusterDeny(name: string, matchLabels: object): ClusterNetworkPolicy {
  return objectOf("ClusterNetworkPolicy", {
    metadata: { name },
    spec: {
      tier: "Admin",
      priority: 1,
      subject: { namespaces: { matchLabels } },
      ingress: [{ action: "Deny", from: [{ namespaces: {} }] }],
    },
  });
}

const NODES = Array.from({ length: 100 }, (_, number) => set(objectOf("Node", { metadata: { name: `n${number}` } })));
const DENY_ALL = clusterDeny("all", {});
const DENY_DENIED = clusterDeny("denied", { team: "denied" });

/** A node with a database pod among many peers, which reports its state after each commit. */
function nodeWith(peers: number, tick: number, committed: (node: LiveNode) => void = () => {}) {
  const kernel = new FakeNftables();
  const seen = observed(kernel, {
    before: () => {},
    committed: () => {
      if (holder.node !== undefined) committed(holder.node);
    },
  });
  const clock = new TickingClock(tick);
  const holder: { node: LiveNode | undefined } = { node: undefined };
  const node = new LiveNode({ kernel: seen, clock });
  node.change(set(NAMESPACE), set(pod(1, { app: "db" })));
  node.change(...Array.from({ length: peers }, (_, index) => set(pod(10 + index))));
  node.apply({ type: "attached", attachment: attached(1) });
  node.settle();
  holder.node = node;
  return { node, kernel, clock };
}

/** The number of elements in the largest set of the profiles. */
function largest(node: LiveNode): number {
  return Math.max(0, ...node.provided().map((name) => node.elements(name).length));
}

describe("policyd/policies/live in slices", () => {
  it("SHARE-10: a peer's label is in force while very many pods have to be decided", () => {
    let first: number | undefined;
    const { node, clock } = nodeWith(5, 4, (of) => {
      if (largest(of) > 0) first ??= clock.now();
    });
    node.change(set(FROM_LABELLED));
    const numbers = Array.from({ length: PROFILES }, (_, index) => 20 + index);
    for (const number of numbers) {
      node.change(set(pod(number, { own: `${number}` })));
      node.apply({ type: "attached", attachment: attached(number) });
    }
    node.settle();
    assert.equal(largest(node), 0);
    const start = clock.now();
    node.change(...numbers.map((number) => set(denying(number))), set(pod(12, { role: "client" })));
    node.settle();
    const [waited, all] = [(first ?? Number.NaN) - start, clock.now() - start];
    assert.ok(waited < all / 2, `after ${waited} of ${all} ms`);
  });

  it("POL-09: a pod has no verdict by a set before all members are in the set, and comes into force afterwards", function () {
    this.timeout(60_000);
    const states: (readonly [members: number, verdicts: number])[] = [];
    const { node } = nodeWith(PODS, TICK, (now) => states.push([largest(now), now.judged("ingress4").length]));
    node.change(set(FROM_PEERS));
    assert.ok(states.length > 10, `${states.length} commits`);
    for (const [members, verdicts] of states) assert.ok(verdicts === 0 || members === PODS, `${members} members`);
    assert.deepEqual(states.at(-1), [PODS, 1]);
  });

  it("POL-52 DP-13: a daemon that starts with the drop log switched on opens no isolated pod in between", () => {
    const kernel = new FakeNftables();
    const numbers = Array.from({ length: PROFILES }, (_, index) => index + 1);
    const known = numbers.flatMap((number): readonly LiveEvent[] => [
      { type: "objects", changes: [set(pod(number, { own: `${number}` })), set(denying(number))] },
      { type: "attached", attachment: attached(number) },
    ]);
    const start = (of: Nftables, dropLog: boolean): LiveNode => {
      const options = { ...DEFAULT_POLICY_OPTIONS, dropLog };
      return new LiveNode({ kernel: of, clock: new TickingClock(0), options, known });
    };
    const before = start(kernel, false);
    before.settle();
    before.stop();
    let batches = 0;
    const committed = (): void => {
      batches++;
      assert.deepEqual(emptyTargets(kernel, POLICY_TABLE), [], `after batch ${batches}`);
    };
    const after = start(observed(kernel, { before: () => {}, committed }), true);
    after.settle();
    assert.ok(batches > 3, `${batches} batches`);
    const drops = after.provided().filter((name) => name.endsWith("_drop"));
    assert.deepEqual([drops.length, after.judged("ingress4").length], [PROFILES, PROFILES]);
    const fresh = start(new FakeNftables(), true);
    fresh.settle();
    assert.equal(after.content(), fresh.content());
  });

  it("POL-28: a namespace's label that changes many pods is written in small batches", function () {
    this.timeout(60_000);
    const sizes: number[] = [];
    const { node } = nodeWith(PODS, TICK, (now) => sizes.push(largest(now)));
    node.change(set(FROM_PEERS));
    sizes.length = 0;
    node.change(set({ ...NAMESPACE, labels: { ...NAMESPACE.labels, team: "b" } }));
    assert.equal(sizes.at(-1), 0);
    const steps = sizes.map((size, index) => (sizes[index - 1] ?? PODS) - size);
    assert.ok(Math.max(...steps) < PODS / 10, `${Math.max(...steps)} members in one batch`);
  });

  it("REG-01: a pod that comes during a long build does not wait for its end", function () {
    this.timeout(60_000);
    const sizes: number[] = [];
    const { node } = nodeWith(PODS, TICK, (now) => {
      if (now.elements("known4").length === 2 && sizes.length === 0) sizes.push(largest(now));
    });
    node.change(set(pod(2, { app: "web" })));
    // The first slice is done when this returns, and the others as time passes.
    node.apply({ type: "objects", changes: [set(FROM_PEERS)] });
    node.apply({ type: "attached", attachment: attached(2) });
    node.settle();
    assert.equal(largest(node), PODS);
    assert.ok((sizes[0] ?? PODS) < PODS / 2, `in force when ${sizes[0]} members were`);
  });

  it("SHARE-10 REG-01: a pod that comes after thousands of changes of another namespace is in force after 256 steps at most", () => {
    let first: number | undefined;
    const { node, clock } = nodeWith(PODS, TICK, (now) => {
      if (now.elements("known4").length === 2) first ??= clock.now();
    });
    const start = clock.now();
    const changes = Array.from({ length: PODS }, (_, index) => set(pod(10 + index, { app: "other" })));
    node.apply({ type: "objects", changes: [...changes, set(pod(2))] });
    node.apply({ type: "attached", attachment: attached(2) });
    node.settle();
    const [steps, all] = [(first ?? Number.NaN) - start, clock.now() - start].map((time) => time / TICK);
    assert.ok(steps !== undefined && steps <= 256, `after ${steps} of ${all} steps`);
  });

  it("SHARE-10: a change of another namespace is applied within two steps while many pods wait for their rules", () => {
    const live = new LivePolicies({
      nodeName: "node1",
      rules: { claim: () => {}, provide: () => {} },
      options: DEFAULT_POLICY_OPTIONS,
      clock: new TickingClock(TICK),
      isEarlier: undefined,
    });
    live.start();
    assert.equal(live.step(), false);
    for (let number = 20; number < 50; number++) {
      live.change([set(denying(number)), set(pod(number, { own: `${number}` }))]);
      live.attach(attached(number));
    }
    for (let change = 0; change < 3 * 30; change++) live.step();
    live.change([set(pod(12))]);
    for (let step = 0; step < 2; step++) live.step();
    const waiting = [...live.locals.values()].filter(({ claimed }) => claimed === undefined);
    assert.deepEqual([live.members.pod("peers/p12")?.name, waiting.length], ["p12", 30]);
  });

  const DENYING: readonly (readonly [title: string, before: readonly ObjectChange[]])[] = [
    ["a NetworkPolicy of its namespace", [set(denying(2))]],
    ["a ClusterNetworkPolicy", [...NODES, set(DENY_ALL)]],
    ["a label of its Namespace that a policy selects", [set({ ...LOCAL, labels: { team: "denied" } })]],
  ];
  for (const [title, before] of DENYING) {
    it(`POL-09: a pod that comes after many changes of all namespaces, the last of them ${title}, is isolated at once`, () => {
      const states: (readonly [known: number, judged: number])[] = [];
      const { node } = nodeWith(PODS, TICK, (now) => {
        states.push([now.elements("known4").length, now.judged("ingress4").length]);
      });
      node.change(set(LOCAL), set(DENY_DENIED));
      states.length = 0;
      const own = Array.from({ length: 8 }, (_, index) => set(pod(3 + (index % 7), { own: "3" })));
      const others = Array.from({ length: PODS }, (_, index) => set(pod(10 + index, { app: "other" })));
      node.apply({ type: "objects", changes: [...others, ...own, set(pod(2, { own: "2" })), ...before] });
      node.apply({ type: "attached", attachment: attached(2) });
      node.settle();
      const isOpen = states.filter(([known, judged]) => known === 2 && judged === 0);
      assert.deepEqual([isOpen, states.at(-1)?.[0]], [[], 2]);
    });
  }

  it("POL-09: a pod that comes while its set is being filled has no verdict before the set is full", function () {
    this.timeout(60_000);
    const relabelled = Array.from({ length: PODS }, (_, index) => set(pod(10 + index, { app: "web", role: "client" })));
    let atVerdict: readonly number[] = [];
    const { node } = nodeWith(PODS, TICK, (now) => {
      const names = now.provided().filter((name) => now.elements(name).length > 0);
      if (now.judged("ingress4").length === 2 && atVerdict.length === 0) {
        atVerdict = names.map((name) => now.elements(name).length);
      }
    });
    node.change(...relabelled);
    node.apply({ type: "objects", changes: [set(FROM_PEERS), set(FROM_LABELLED), set(pod(2, { app: "db" }))] });
    node.apply({ type: "attached", attachment: attached(2) });
    node.settle();
    assert.deepEqual(atVerdict, [PODS, PODS]);
  });

  it("DP-02: the number of written elements per change does not grow with the number of pods", function () {
    this.timeout(60_000);
    const counts = [10, 100, 1000].map(writesPerChange);
    assert.deepEqual(counts[1], counts[0]);
    assert.deepEqual(counts[2], counts[0]);
    for (const [change, count] of Object.entries(counts[0] ?? {})) assert.ok(count > 0, change);
  });
});

/** The number of elements and objects in the batches of some changes, with this number of peers. */
function writesPerChange(peers: number): Readonly<Record<string, number>> {
  const { node, kernel } = nodeWith(peers, 0);
  node.change(set(FROM_PEERS), set(FROM_LABELLED));
  const written = (...changes: readonly ObjectChange[]): number => {
    const before = kernel.commits.length;
    node.change(...changes);
    return kernel.commits
      .slice(before)
      .flat()
      .filter(({ table }) => table.name === POLICY_TABLE.name)
      .reduce((sum, change) => sum + ("elements" in change ? change.elements.length : 1), 0);
  };
  const counts = {
    "a pod comes": written(set(pod(5000))),
    "its labels change": written(set(pod(5000, { app: "web", role: "client" }))),
    "it goes": written(gone(pod(5000))),
    "a policy for other pods": written(set({ ...FROM_PEERS, key: "peers/x", namespace: "peers" }), set(pod(5001))),
    "a policy goes": written(gone(FROM_LABELLED)),
  };
  node.stop();
  return counts;
}

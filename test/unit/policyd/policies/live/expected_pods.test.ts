import assert from "node:assert/strict";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { NetworkPolicy, Pod } from "../../../../../objects/model.ts";
import { MOST_EXPECTED } from "../../../../../policyd/policies/live/pods/expected_pods.ts";
import { gone, LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";

const ATTACHMENT = attachmentOf({ namespace: "n", name: "b", uid: "uid-b" }, ["10.244.1.3"]);

interface PodParts {
  readonly app?: string;
  readonly spec?: object;
  readonly phase?: string;
  readonly deletionTimestamp?: string;
}

function pod({ app = "db", spec = {}, phase = "Pending", ...metadata }: PodParts = {}): Pod {
  return objectOf("Pod", {
    metadata: { name: "b", namespace: "n", uid: "uid-b", labels: { app }, ...metadata },
    spec: { nodeName: "node1", ...spec },
    status: { phase },
  });
}

function fromApp(name: string, app: string, peer: string): NetworkPolicy {
  const ingress = [{ from: [{ podSelector: { matchLabels: { app: peer } } }] }];
  return objectOf("NetworkPolicy", {
    metadata: { name, namespace: "n" },
    spec: { podSelector: { matchLabels: { app } }, ingress },
  });
}

const FOR_DB = fromApp("for-db", "db", "web");
const FOR_WEB = fromApp("for-web", "web", "db");
const WEB = objectOf("Pod", {
  metadata: { name: "a", namespace: "n", uid: "uid-a", labels: { app: "web" } },
  spec: { nodeName: "node2" },
  status: { phase: "Running", podIPs: [{ ip: "10.244.2.7" }] },
});

describe("policyd/policies/live: pods whose ADD is expected", () => {
  let node: LiveNode;
  beforeEach(() => {
    node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(0) });
    node.change(set(FOR_DB), set(FOR_WEB), set(WEB));
  });
  afterEach(() => node.stop());

  /** Whether the chain and the two sets of one profile are there, with the pod at 10.244.2.7 as a peer. */
  function isReady(): boolean {
    const provided = node.provided();
    return provided.length === 3 && provided.some((name) => node.elements(name).length === 1);
  }

  it("POL-09 REG-01: a Pod's policies are in force before its ADD, which adds only elements", () => {
    assert.deepEqual(node.provided(), []);
    node.change(set(pod()));
    assert.ok(isReady());
    assert.deepEqual([node.elements("known4"), node.judged("ingress4")], [[], []], "no pod is known yet");
    assert.deepEqual(node.component.problems(), [], "no pod waits");
    const before = node.provided();
    node.apply({ type: "attached", attachment: ATTACHMENT });
    node.settle();
    assert.deepEqual(node.provided(), before);
    const [chain = ""] = before;
    assert.match(node.judged("ingress4").join(), new RegExp(`^\\d+ : goto ${chain}$`));
    assert.equal(node.elements("known4").length, 1);
  });

  it("POL-28: a Pod that goes, ends, or runs without an attachment leaves no rules", () => {
    const ends = [
      gone(pod()),
      set(pod({ deletionTimestamp: "2026-01-01T00:00:00Z" })),
      ...["Running", "Succeeded", "Failed"].map((phase) => set(pod({ phase }))),
    ];
    for (const end of ends) {
      node.change(set(pod()));
      assert.ok(isReady());
      node.change(end);
      assert.deepEqual(node.provided(), [], JSON.stringify(end));
    }
  });

  it("POL-09: no rules are prepared for pods of other nodes, of no node, and of the host's network", () => {
    for (const spec of [{ nodeName: "node2" }, { nodeName: undefined }, { hostNetwork: true }]) {
      node.change(set(pod({ spec })));
      assert.deepEqual(node.provided(), [], JSON.stringify(spec));
    }
  });

  it("POL-28: the number of prepared profiles is bounded, however many Pods are bound to the node", () => {
    const named = (name: string): Pod =>
      objectOf("Pod", { metadata: { name, namespace: "n", labels: { app: name } }, spec: { nodeName: "node1" } });
    const count = MOST_EXPECTED + 20;
    const pods = Array.from({ length: count }, (_, number) => named(`p${number}`));
    node.change(...pods.map((one) => set(one)), ...pods.map(({ name }) => set(fromApp(name, name, "web"))));
    assert.equal(node.provided().filter((name) => name.startsWith("ingress_")).length, MOST_EXPECTED);
    node.change(...pods.map((one) => gone(one)));
    assert.deepEqual(node.provided(), []);
  });

  it("POL-28: prepared rules follow labels, policies and namespaces like those of an attached pod", () => {
    node.change(set(pod()));
    const forDb = node.provided();
    node.change(set(pod({ app: "web" })));
    const forWeb = node.provided();
    assert.notDeepEqual(forWeb, forDb);
    node.change(gone(FOR_WEB));
    assert.deepEqual(node.provided(), []);
    node.change(set(FOR_WEB));
    assert.deepEqual(node.provided(), forWeb);
    const ofTeam = objectOf("ClusterNetworkPolicy", {
      metadata: { name: "of-team" },
      spec: {
        tier: "Admin",
        priority: 1,
        subject: { namespaces: { matchLabels: { team: "x" } } },
        ingress: [{ action: "Deny", from: [{ namespaces: {} }] }],
      },
    });
    node.change(set(ofTeam));
    assert.deepEqual(node.provided(), forWeb);
    const namespace = objectOf("Namespace", { metadata: { name: "n", labels: { team: "x" } } });
    node.change(set(namespace));
    const withTier = node.provided();
    assert.ok(withTier.length > forWeb.length);
    node.change(gone(ofTeam));
    assert.deepEqual(node.provided(), forWeb);
    node.change(set(ofTeam));
    assert.deepEqual(node.provided(), withTier);
  });
});

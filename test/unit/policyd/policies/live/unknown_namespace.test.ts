import assert from "node:assert/strict";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { ClusterNetworkPolicy, ObjectChange } from "../../../../../objects/model.ts";
import { gone, LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";

const POD = set(
  objectOf("Pod", {
    metadata: { name: "web", namespace: "prod", uid: "u" },
    spec: { nodeName: "node1" },
    status: { phase: "Running", podIPs: [{ ip: "10.0.0.1" }] },
  }),
);
const SPACE = set(objectOf("Namespace", { metadata: { name: "prod", labels: { env: "prod" } } }));
const JAIL = jailing({ matchLabels: { env: "prod" } });

/** Denies all egress of the pods in these namespaces. */
function jailing(namespaces: object): ClusterNetworkPolicy {
  const egress = [{ action: "Deny", to: [{ networks: ["0.0.0.0/0"] }] }];
  const spec = { tier: "Admin", priority: 1, subject: { namespaces }, egress };
  return objectOf("ClusterNetworkPolicy", { metadata: { name: "jail" }, spec });
}

const OWN = set(objectOf("NetworkPolicy", { metadata: { name: "own", namespace: "prod" }, spec: {} }));

/** A node with an attached pod. @returns for each change the directions with a verdict, or what the pod waits for */
function inForce(areNamespacesReported: boolean, ...changes: readonly ObjectChange[]) {
  const node = new LiveNode({
    kernel: new FakeNftables(),
    clock: new TickingClock(1),
    ...(areNamespacesReported ? { isEarlier: () => false } : {}),
  });
  const attachment = attachmentOf({ namespace: "prod", name: "web", uid: "u" }, ["10.0.0.1"]);
  node.apply({ type: "attached", attachment });
  const states = changes.map((change) => {
    node.change(change);
    const judged = (["egress4", "ingress4"] as const).filter((map) => node.judged(map).length > 0);
    return node.elements("known4").length === 0 ? (node.component.awaits(attachment) ?? "") : judged.join(" ");
  });
  node.stop();
  return states;
}

describe("policyd/policies/live: a pod whose Namespace is unknown", () => {
  const closed = "policyd does not know its Namespace prod yet, by whose labels policies may select";

  it("POL-09 CNP-04: the pod passes nothing while a ClusterNetworkPolicy may select it, in any order of reports", () => {
    assert.deepEqual(inForce(true, set(JAIL), POD, SPACE), [
      "policyd does not know its Pod prod/web yet, which policies may select",
      closed,
      "egress4",
    ]);
    assert.deepEqual(inForce(true, POD, set(JAIL), SPACE), ["", closed, "egress4"]);
    assert.deepEqual(inForce(true, POD, set(JAIL), gone(JAIL)), ["", closed, ""]);
  });

  it("POL-09: the pod does not wait for policies of all namespaces or NetworkPolicies, nor for a Namespace that is gone", () => {
    assert.deepEqual(inForce(true, OWN, POD, SPACE).slice(1), ["ingress4", "ingress4"]);
    assert.deepEqual(inForce(true, set(jailing({})), POD).slice(1), ["egress4"]);
    assert.deepEqual(inForce(true, SPACE, POD, set(JAIL), gone({ kind: "Namespace", key: "prod" })).slice(2), [
      "egress4",
      "egress4",
    ]);
  });

  it("POL-24: files may omit Namespaces, and a pod is then in a namespace with only its name", () => {
    assert.deepEqual(inForce(false, set(JAIL), POD, SPACE).slice(1), ["", "egress4"]);
  });
});

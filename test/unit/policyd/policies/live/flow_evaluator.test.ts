import assert from "node:assert/strict";
import { parseAddress } from "../../../../../kernel/ip/address.ts";
import { DEFAULT_POLICY_OPTIONS } from "../../../../../policyd/policies/compile/options.ts";
import { flowEvaluator, type FlowVerdict } from "../../../../../policyd/policies/live/flow_evaluator.ts";
import { storeOf } from "../../../../support/evaluate/store.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import { LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";
import { addressOf, threeByThree } from "../../../../support/policy/three_by_three.ts";

const NODE = "192.0.2.1";
const OUTSIDE = "198.51.100.7";
/** The address of a pod whose Pod is not known. */
const CLOSED = "10.250.0.9";
const DENY = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "deny", namespace: "x" },
  spec: { podSelector: {}, policyTypes: ["Ingress", "Egress"] },
};

/** The verdicts of flows on a node with pods that a policy isolates, and a pod whose policies are unknown. */
function judge(policePodToOwnNode: boolean): (source: string, destination: string) => FlowVerdict {
  const options = { ...DEFAULT_POLICY_OPTIONS, policePodToOwnNode };
  const { pods, networkPolicies } = storeOf([...threeByThree(), DENY]);
  const pod = pods.get("x/a");
  assert.ok(pod !== undefined);
  const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(1), options });
  node.apply({ type: "attached", attachment: attachmentOf(pod, [addressOf("x/a")]) });
  node.apply({ type: "attached", attachment: attachmentOf({ ...pod, name: "closed" }, [CLOSED]) });
  node.change(...[...pods.values(), ...networkPolicies.values()].map((object) => set(object)));
  const own = new Set([parseAddress(NODE)]);
  const verdictOf = flowEvaluator(
    node.component.live,
    options,
    () => own,
    () => [],
  );
  node.stop();
  return (source, destination) =>
    verdictOf({ source: parseAddress(source), destination: parseAddress(destination), protocol: "TCP", port: 80 });
}

describe("policyd/policies/live: flows of pods and their node", () => {
  const pod = addressOf("x/a");

  it("POL-07: a flow from the node itself to its pods is never denied, whatever isolates them", () => {
    for (const policePodToOwnNode of [false, true]) {
      const verdictOf = judge(policePodToOwnNode);
      assert.deepEqual([verdictOf(NODE, pod), verdictOf(OUTSIDE, pod)], ["allowed", "denied"]);
      assert.equal(verdictOf(pod, NODE), policePodToOwnNode ? "denied" : "allowed");
    }
  });

  it("POL-07 R9: a flow from any loopback address is the node's own, though no link has each of these addresses", () => {
    const verdictOf = judge(false);
    for (const source of ["127.0.0.1", "127.9.8.7"]) assert.equal(verdictOf(source, pod), "allowed", source);
  });

  it("POL-09: a pod whose policies are unknown cannot reach its node, nor the node the pod", () => {
    const verdictOf = judge(false);
    assert.deepEqual([verdictOf(NODE, CLOSED), verdictOf(CLOSED, NODE)], ["denied", "denied"]);
    assert.equal(verdictOf(NODE, OUTSIDE), "not ours");
  });
});

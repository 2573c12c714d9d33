import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import { FakeClock } from "../../../../support/fake_clock.ts";
import type { NetworkPolicy, Pod } from "../../../../../objects/model.ts";
import { recordingLogger } from "../../../../support/recording_logger.ts";
import { ALLOWED_LABEL } from "../../../../../policyd/policies/compile/policy_table.ts";
import { Cuts } from "../../../../../policyd/policies/cuts/cuts.ts";
import { FakeFlows, LABELLED } from "../../../../support/policy/cuts/fake_flows.ts";
import { LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";

const POD = "10.0.0.1";
const OUTSIDE = "198.51.100.7";
/** A number of peers that fills many slices. */
const PEERS = 300;

function pod(number: number, namespace: string): Pod {
  return objectOf("Pod", {
    metadata: { name: `p${number}`, namespace },
    spec: { nodeName: namespace === "local" ? "node1" : "node2" },
    status: { phase: "Running", podIPs: [{ ip: `10.0.${number >> 8}.${number & 255}` }] },
  });
}

function policy(...ingress: readonly object[]): NetworkPolicy {
  return objectOf("NetworkPolicy", { metadata: { name: "web", namespace: "local" }, spec: { ingress } });
}

/** A policy that allows the connection, and whose sets have neither of its ends as an element. */
const ALLOWING = policy({
  from: [
    { ipBlock: { cidr: "198.51.100.0/24" } },
    { namespaceSelector: { matchLabels: { "kubernetes.io/metadata.name": "other" } } },
  ],
});

/** A node whose policy denies a connection from outside that was allowed before. */
async function setUp() {
  const pods = Array.from({ length: PEERS }, (_, number) => pod(number + 2, "other"));
  const own = pod(1, "local");
  const node = new LiveNode({
    kernel: new FakeNftables(),
    clock: new TickingClock(1000),
    known: [
      { type: "objects", changes: [own, ...pods, ALLOWING].map((object) => set(object)) },
      { type: "attached", attachment: attachmentOf(own, [POD]) },
    ],
  });
  node.settle();
  const [flows, clock] = [new FakeFlows(), new FakeClock()];
  const cuts = new Cuts({
    flows,
    evaluatorOf: (nodeAddresses) => node.component.flowEvaluator(nodeAddresses),
    isSettled: () => node.component.isSettled,
    ruleset: node.ruleset,
    opening: { read: () => ({ isInForce: true, cut: [], settled: [] }), open: () => {}, close: () => {} },
    clock,
    logger: recordingLogger(),
    policyReset: false,
  });
  node.component.follow(cuts);
  flows.put({ id: 1, from: OUTSIDE, to: POD, labels: LABELLED });
  const pass = async (milliseconds: number): Promise<void> => {
    for (let left = milliseconds; left > 0; left -= 10) {
      clock.pass(10);
      for (let turns = 0; turns < 5; turns++) await turn();
    }
  };
  node.change(set(policy()));
  await pass(100);
  return { node, flows, pass, passes: () => flows.has(1, ALLOWED_LABEL) };
}

describe("policy/cuts: verdicts that are ahead of the rules", () => {
  it("POL-81: a cut connection that is allowed for moments, but not yet by the rules, stays cut", async () => {
    const { node, pass, passes } = await setUp();
    assert.equal(passes(), false);
    const denying = node.judged("ingress4");
    node.apply({ type: "objects", changes: [set(ALLOWING)] });
    for (let slice = 0; slice < PEERS / 2; slice++) node.tick();
    // The second pass over what was cut.
    await pass(400);
    assert.deepEqual(node.judged("ingress4"), denying, "the allowing rules are not in force yet");
    node.change(set(policy()));
    await pass(10_000);
    assert.deepEqual([node.judged("ingress4"), passes()], [denying, false]);
    node.stop();
  });
});

import assert from "node:assert/strict";
import type { AttachmentRecord } from "../../../../../attachment/attachment.ts";
import { FakeNftables } from "../../../../support/nftables/fake/fake_nftables.ts";
import type { NetworkPolicy, Pod } from "../../../../../objects/model.ts";
import { MOST_PAIRS } from "../../../../../policyd/policies/policy_size.ts";
import { type LiveEvent, LiveNode, set } from "../../../../support/policy/live/live_node.ts";
import { attachmentOf, objectOf } from "../../../../support/policy/live/objects.ts";
import { TickingClock } from "../../../../support/policy/live/ticking_clock.ts";

/** Each piece of work takes so long that it is a slice. */
const SLICE = 1000;
const PIECES = 20;

function pod(number: number, app: string, ports: readonly string[] = []): Pod {
  return objectOf("Pod", {
    metadata: { name: `p${number}`, namespace: "local", labels: { app } },
    spec: {
      nodeName: "node1",
      containers: [{ ports: ports.map((name) => ({ name, containerPort: 8000, protocol: "TCP" })) }],
    },
    status: { phase: "Running", podIPs: [{ ip: `10.0.0.${number}` }] },
  });
}

/** The attachment of the pod of this number. */
function attached(number: number): AttachmentRecord {
  return attachmentOf(pod(number, "db"), [`10.0.0.${number}`]);
}

function allowing(name: string, ingress: readonly object[]): NetworkPolicy {
  return objectOf("NetworkPolicy", {
    metadata: { name, namespace: "local" },
    spec: { podSelector: { matchLabels: { app: "db" } }, ingress },
  });
}

/** The largest allowed policies, by kind of peers. */
const LARGEST = {
  prefixes: allowing(
    "prefixes",
    Array.from({ length: MOST_PAIRS }, (_, number) => ({
      from: [{ ipBlock: { cidr: `2001:db8:${number.toString(16)}::/64` } }],
      ports: [{ protocol: "TCP", port: 1 + number }],
    })),
  ),
  pods: allowing("pods", [
    {
      from: Array.from({ length: MOST_PAIRS }, (_, number) => ({
        podSelector: { matchLabels: { app: `a${number}` } },
      })),
    },
  ]),
};

const OF_POD: readonly LiveEvent[] = [
  { type: "objects", changes: [set(pod(1, "db"))] },
  { type: "attached", attachment: attached(1) },
];

function nodeOf(known: readonly LiveEvent[], tick: number): LiveNode {
  const node = new LiveNode({ kernel: new FakeNftables(), clock: new TickingClock(tick), known });
  node.settle();
  return node;
}

/** Compiles a change slice by slice until the pod has a verdict. @returns the number of slices */
function slicesOf(node: LiveNode): number {
  for (let slices = 1; ; slices++) {
    if (node.judged("ingress4").length > 0) return slices;
    assert.ok(slices < 20_000, "the pod is not judged");
    node.tick();
  }
}

describe("policyd/policies/live: large policies", () => {
  for (const [name, policy] of Object.entries(LARGEST)) {
    it(`POL-73: the largest policy of ${name} is compiled in many slices, with the same result as at once`, function () {
      this.timeout(60_000);
      const node = nodeOf(OF_POD, SLICE);
      node.apply({ type: "objects", changes: [set(policy)] });
      assert.ok(slicesOf(node) > PIECES);
      node.settle();
      const fresh = nodeOf([...OF_POD, { type: "objects", changes: [set(policy)] }], 0);
      assert.ok(node.content() === fresh.content());
    });
  }

  it("POL-31: with hundreds of port names a pod is only in the sets of the names it has", function () {
    this.timeout(60_000);
    const ports = Array.from({ length: 250 }, (_, number) => ({ protocol: "TCP", port: `n-${number}` }));
    const from = [{ podSelector: { matchLabels: { app: "web" } } }];
    const node = nodeOf([...OF_POD, { type: "objects", changes: [set(pod(2, "web", ["n-7", "other"]))] }], 0);
    const without = node.component.live.setTotals().members;
    node.change(set(allowing("names", [{ from, ports }])));
    // The pod is in the set of its port name, and as a peer in the set of those that may reach it.
    assert.deepEqual([without, node.component.live.setTotals().members], [0, 2]);
    node.change(set(pod(2, "web", ["n-7", "n-8"])));
    assert.equal(node.component.live.setTotals().members, 3);
    node.change(set(allowing("names", [])));
    assert.equal(node.component.live.setTotals().members, 0);
  });
});

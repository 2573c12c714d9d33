import assert from "node:assert/strict";
import { add, type CallOutcome, del } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { requireKernel } from "../../support/privilege.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { nodeState } from "../../support/cni/kernel_state.ts";

describe("a /24 filled to the last address", () => {
  let lab: Lab;
  let wired: WiredNode;
  const pods: LabPod[] = [];

  before(function () {
    requireKernel(this);
    this.timeout(120_000);
    lab = createLab("exhaustion");
    wired = twoNodes(lab).node1;
  });

  after(function () {
    this.timeout(60_000);
    lab?.destroy();
  });

  const firstAddress = (outcome: CallOutcome): string => podResult(outcome).ips[0]?.address ?? "";

  it("253 ADDs succeed with distinct addresses", function () {
    this.timeout(60_000);
    const addresses = new Set<string>();
    for (let i = 0; i < 253; i++) {
      const pod = lab.pod(`p${i}`);
      addresses.add(firstAddress(add(wired, pod)));
      pods.push(pod);
    }
    assert.equal(addresses.size, 253);
    assert.ok(!addresses.has("10.244.1.1/32"), "the gateway is the bridge's");
    assert.ok(addresses.has("10.244.1.254/32"));
    assert.equal(nodeState(wired.node).podLinks.length, 253);
  });

  it("the 254th ADD fails within 100 ms, names the range and leaves nothing", () => {
    const held = nodeState(wired.node);
    const extra = lab.pod("extra");
    const outcomes = Array.from({ length: 5 }, () => add(wired, extra));
    for (const { exitCode, error } of outcomes) {
      assert.equal(exitCode, 1);
      assert.equal(error?.code, 102);
      assert.match(error?.msg ?? "", /no IP addresses available in range set: 10\.244\.1\.1-10\.244\.1\.254/);
    }
    const [first, ...others] = outcomes.map(({ milliseconds }) => milliseconds);
    assert.ok((first ?? Infinity) < 100, `${first} ms, and then ${others.join(", ")} ms`);
    assert.deepEqual(nodeState(wired.node), held);
  });

  it("the next ADD gets the address that a DEL has released", () => {
    const gone = pods[100];
    assert.ok(gone !== undefined);
    assert.equal(del(wired, gone).exitCode, 0);
    assert.equal(
      firstAddress(add(wired, lab.pod("next"))),
      "10.244.1.102/32",
      "the 101st pod had the 101st address after the gateway",
    );
    assert.equal(nodeState(wired.node).reservations.filter((name) => name.startsWith("10.")).length, 253);
  });

  it("I5: in a range with free addresses, a released address is given out again after all others", () => {
    const ipam = { type: "host-local", dataDir: wired.node.dataDir, ranges: [[{ subnet: "10.9.0.0/28" }]] };
    const pod = lab.pod("rr");
    const overrides = { name: "round-robin", bridge: "cni1", ipam };
    const seen: string[] = [];
    for (let i = 0; i < 14; i++) {
      seen.push(firstAddress(add(wired, pod, overrides)));
      assert.equal(del(wired, pod, overrides).exitCode, 0);
    }
    assert.equal(new Set(seen.slice(0, 13)).size, 13, "13 addresses, each once, before any comes back");
    assert.equal(seen[13], seen[0]);
  });
});

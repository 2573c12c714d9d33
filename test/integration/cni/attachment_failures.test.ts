import assert from "node:assert/strict";
import { add } from "../../lab/cni.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";

describe("ADDs that fail on a node with policyd", function () {
  this.timeout(120_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let counter = 0;

  beforeEach(function () {
    requireKernel(this);
    lab = createLab(`failures${++counter}`);
    wired = twoNodes(lab).node1;
    policyd = new PolicydNode(lab, wired);
  });
  afterEach(async () => {
    await policyd?.kill();
    lab?.destroy();
  });

  it("STATUS-05: a daemon that starts reports ADDs that failed before because no daemon answered", async () => {
    await policyd.start();
    await policyd.kill();
    const closed = policyd.overridesWith({ wait: "100ms" });
    assert.notEqual(add(wired, lab.pod("a"), closed).exitCode, 0);
    const daemon = await policyd.start();
    const { problems } = await daemon.statusWhen(({ problemCount }) => problemCount > 0, "reported", 30);
    assert.match(
      problems[0] ?? "",
      /^attachments: pods cannot be attached to network drawbridge: policyd did not answer/,
    );
    assert.equal(add(wired, lab.pod("b"), policyd.overrides).exitCode, 0);
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "over", 30);
  });
});

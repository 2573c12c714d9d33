import assert from "node:assert/strict";
import { add, del, networkStatus } from "../../lab/cni.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { scrapeWhen } from "../../support/daemon/scrape.ts";

const METRIC = (reason: string): string =>
  `drawbridge_attachment_failure_seconds{network="drawbridge",reason="${reason}"}`;

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

  it("STATUS-05: the daemon reports a full range once and measures its duration until an ADD succeeds; STATUS succeeds meanwhile", async () => {
    const daemon = await policyd.start(["--metrics-address=127.0.0.1:9873"]);
    const tiny = {
      ...policyd.overrides,
      ipam: { type: "host-local", dataDir: wired.node.dataDir, ranges: [[{ subnet: "10.244.1.0/30" }]] },
    };
    const holder = lab.pod("holder");
    assert.equal(add(wired, holder, tiny).exitCode, 0);
    assert.equal(add(wired, lab.pod("a"), tiny).error?.code, 102);
    const failing = await daemon.statusWhen(({ problemCount }) => problemCount > 0, "reported", 30);
    assert.match(
      failing.problems[0] ?? "",
      /^addresses: pods cannot be attached to network drawbridge: its range has no free address/,
    );
    assert.equal(add(wired, lab.pod("b"), tiny).error?.code, 102);
    await scrapeWhen(wired.node, (values) => (values.get(METRIC("addresses")) ?? 0) > 5, "more than 5 s");
    const { exitCode, stdout } = networkStatus(wired, tiny);
    assert.deepEqual([exitCode, stdout], [0, ""]);
    assert.equal(del(wired, holder, tiny).exitCode, 0);
    assert.equal(add(wired, lab.pod("c"), tiny).exitCode, 0);
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "over", 30);
    await scrapeWhen(wired.node, (values) => values.get(METRIC("addresses")) === 0, "0");
    assert.equal(daemon.log().match(/pods cannot be attached to network/g)?.length, 1, daemon.log());
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

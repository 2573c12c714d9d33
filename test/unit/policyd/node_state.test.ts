import assert from "node:assert/strict";
import { desiredBridges } from "../../../cni/node_state/desired.ts";
import { NodeStateReconciler } from "../../../policyd/node_state/node_state_reconciler.ts";
import { NodeStateReport } from "../../../policyd/node_state/report.ts";
import { FakeKernelNotifications } from "../../support/daemon/fake_notifications.ts";
import { FakeClock } from "../../support/fake_clock.ts";
import { FakeNodeState } from "../../support/node_state/fake_node_state.ts";
import { RECORDS } from "../../support/node_state/records.ts";
import { recordingLogger } from "../../support/recording_logger.ts";
import { recordingNotices } from "../../support/recording_notices.ts";

const SYNC_PERIOD = 1000;

describe("policyd/node_state", () => {
  it("FOREIGN-03: addresses of other bridges are looked for in each sync period while the kernel reports no changes, and not otherwise", async () => {
    const [desired] = desiredBridges(RECORDS);
    const kernel = new FakeNodeState(desired ?? assert.fail());
    const clock = new FakeClock();
    const events = new FakeKernelNotifications();
    let looks = 0;
    const reconciler = new NodeStateReconciler({
      clock,
      syncPeriod: SYNC_PERIOD,
      kernel,
      sysctl: { read: (key) => kernel.settings.get(key) },
      report: new NodeStateReport({ logger: recordingLogger(), events: recordingNotices(), nodeName: "a" }),
      attachments: RECORDS,
      uplinks: () => [],
      links: [],
      onAddresses: () => void looks++,
    });
    await reconciler.start(events);
    const looksIn = (periods: number): number => {
      const before = looks;
      clock.pass(periods * SYNC_PERIOD);
      return looks - before;
    };
    assert.equal(looksIn(3), 0);
    events.fail("route", new Error("no more"));
    assert.equal(looksIn(3), 3);
    await reconciler.stop();
  });
});

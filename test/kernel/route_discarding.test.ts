import { inTurn } from "../support/node/in_turn.ts";
import assert from "node:assert/strict";
import { FakeClock } from "../support/fake_clock.ts";
import { NodeJudge } from "../../objects/nodes/node_judge.ts";
import { recordingNotices } from "../support/recording_notices.ts";
import { recordingLogger } from "../support/recording_logger.ts";
import { NetlinkRouteKernel } from "../../policyd/routes/route_kernel/netlink_kernel.ts";
import { RouteReconciler } from "../../policyd/routes/route_reconciler.ts";
import type { Lab } from "../lab/lab.ts";
import { suiteLab } from "../support/suite_lab.ts";
import { node as nodeObject } from "../support/routes/machine.ts";

const SYNC_PERIOD = 30_000;

describe("policyd/routes and discarding routes, in the kernel", () => {
  let lab: Lab | undefined;

  before(function () {
    lab = suiteLab(this, "discarding");
  });

  for (const [name, type, metric, isBefore, isOursThere] of [
    ["low", "blackhole", "0", true, true],
    ["same", "unreachable", "107", true, false],
    ["high", "prohibit", "1024", false, true],
  ] as const) {
    it(`POD-21: another program's ${type} route of metric ${metric} is ${isBefore ? "reported, since it comes before ours" : "not reported, since ours comes before it"}`, () => {
      const node = lab?.namespace(name);
      assert.ok(node !== undefined);
      for (const command of [
        "link set lo up",
        "link add uplink type veth peer name other",
        "link set other up",
        "link set uplink up",
        "addr add 192.0.2.1/24 dev uplink",
        "addr add 2001:db8::1/64 dev uplink nodad",
        `route add ${type} 10.244.2.0/24 metric ${metric}`,
        `-6 route add ${type} fd00:244:2::/64 metric ${metric === "0" ? "1" : metric}`,
        `-6 route add ${type} default metric 4000`,
      ]) {
        node.exec("ip", command.split(" "));
      }
      const clock = new FakeClock();
      const judge = new NodeJudge({ nodeName: "a", serviceCidrs: [] });
      const routes = new RouteReconciler({
        kernel: node.inside(() => new NetlinkRouteKernel(node.calls)),
        clock,
        logger: recordingLogger(),
        events: recordingNotices(),
        nodeName: "a",
        judge,
        options: { encapsulation: "auto", bridge: "cni0" },
        syncPeriod: SYNC_PERIOD,
      });
      const both = inTurn(judge, routes);
      for (const object of [
        nodeObject("a", ["192.0.2.1", "2001:db8::1"], ["10.244.1.0/24", "fd00:244:1::/64"]),
        nodeObject("b", ["192.0.2.2", "2001:db8::2"], ["10.244.2.0/24", "fd00:244:2::/64"]),
      ]) {
        both.apply([{ type: "set", kind: "Node", key: object.key, object }]);
      }
      node.inside(() => both.synced());
      const reported = routes
        .problems()
        .filter((problem) => /Node b: .* discards what is sent to .*\/(24|64);/.test(problem));
      assert.deepEqual(
        [reported.length, routes.problems().length],
        isBefore ? [2, 2] : [0, 0],
        routes.problems().join(),
      );
      const ours = (): readonly boolean[] =>
        ["-4", "-6"].map((family) => /via/.test(node.exec("ip", [family, "route", "show", "proto", "107"])));
      assert.deepEqual(ours(), [isOursThere, isOursThere]);
      assert.equal(routes.areInForce, true);
      node.exec("ip", ["route", "del", type, "10.244.2.0/24"]);
      node.exec("ip", ["-6", "route", "del", type, "fd00:244:2::/64"]);
      node.inside(() => clock.pass(SYNC_PERIOD));
      assert.deepEqual([routes.problems(), ours()], [[], [true, true]]);
    });
  }
});

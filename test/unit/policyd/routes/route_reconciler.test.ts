import { inTurn } from "../../../support/node/in_turn.ts";
import assert from "node:assert/strict";
import { FakeKernelNotifications } from "../../../support/daemon/fake_notifications.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import type { ReceivedMessage, Request } from "../../../../kernel/netlink/message.ts";
import { setForwardingEntry } from "../../../../kernel/route/forwarding_entry.ts";
import { deleteNeighbour, setNeighbour } from "../../../../kernel/route/neighbour.ts";
import { newRoute } from "../../../../kernel/route/route.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import type { Node, ObjectChange } from "../../../../objects/model.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import { recordingNotices } from "../../../support/recording_notices.ts";
import { recordingLogger } from "../../../support/recording_logger.ts";
import { FakeRouteKernel } from "../../../support/routes/fake_route_kernel.ts";
import type { Step } from "../../../../policyd/routes/route_kernel/kernel_state.ts";
import { RouteReconciler } from "../../../../policyd/routes/route_reconciler.ts";
import { machine, node } from "../../../support/routes/machine.ts";

const OWN = node("a", ["192.0.2.1", "2001:db8::1"], ["10.244.1.0/24"]);
const NEAR = node("b", ["192.0.2.2"], ["10.244.2.0/24"]);
const FAR = node("c", ["198.51.100.3"], ["10.244.3.0/24"]);

const RTM_NEWROUTE = 24;
const RTM_DELROUTE = 25;
const RTM_NEWNEIGH = 28;
const RTM_DELNEIGH = 29;

function set(object: Node): ObjectChange {
  return { type: "set", kind: "Node", key: object.key, object };
}

function setUp() {
  const kernel = new FakeRouteKernel(machine());
  const clock = new FakeClock();
  const judge = new NodeJudge({ nodeName: "a" });
  const options = { encapsulation: "auto", bridge: "drawbridge0" } as const;
  const of = { nodeName: "a", judge, options, logger: recordingLogger(), events: recordingNotices() };
  const routes = new RouteReconciler({ ...of, kernel, clock, syncPeriod: 30_000 });
  return { kernel, clock, routes, objects: inTurn(judge, routes) };
}

/** The kernel's notification of a step that has been carried out. */
function notificationOf(step: Step): ReceivedMessage {
  const reported = (type: number, { body }: Request): ReceivedMessage => ({ type, flags: 0, sequence: 0, body });
  switch (step.type) {
    case "add-route":
    case "replace-route":
      return reported(RTM_NEWROUTE, newRoute({ ...step.route, priority: 107 }));
    case "delete-route":
      return reported(RTM_DELROUTE, newRoute({ ...step.route, priority: 107 }));
    case "set-forwarding":
      return reported(RTM_NEWNEIGH, setForwardingEntry(step.index, step.entry));
    case "delete-forwarding":
      return reported(RTM_DELNEIGH, setForwardingEntry(step.index, step.entry));
    case "set-neighbour":
      return reported(RTM_NEWNEIGH, setNeighbour(step.index, step.address, step.mac));
    case "delete-neighbour":
      return reported(RTM_DELNEIGH, deleteNeighbour(step.index, step.address));
    default:
      return assert.fail(step.type);
  }
}

describe("policyd/routes/route_reconciler", () => {
  it("POD-21: changed Nodes change only their own entries in one pass, and our own notifications cause no other one", async () => {
    const { kernel, clock, routes, objects } = setUp();
    const events = new FakeKernelNotifications();
    objects.apply([set(OWN), set(NEAR), set(FAR)]);
    objects.synced();
    await routes.start(events);
    clock.pass(100);
    const reads = kernel.reads;
    kernel.steps.length = 0;
    const moved = node("c", ["198.51.100.4"], ["10.244.3.0/24"]);
    objects.apply([set(moved), set(node("d", ["192.0.2.4"], ["10.244.4.0/24"]))]);
    clock.pass(100);
    assert.equal(kernel.reads, reads + 1);
    assert.deepEqual(kernel.steps.map(({ type }) => type).toSorted(), [
      "add-route",
      "add-route",
      "delete-forwarding",
      "delete-neighbour",
      "delete-route",
      "replace-route",
      "set-forwarding",
      "set-neighbour",
    ]);
    events.emit("route", kernel.steps.map(notificationOf));
    clock.pass(1000);
    assert.equal(kernel.reads, reads + 1);
    const [first] = kernel.steps.filter(({ type }) => type === "replace-route").map(notificationOf);
    events.emit("route", [{ ...(first ?? assert.fail()), type: RTM_DELROUTE }]);
    clock.pass(1000);
    assert.equal(kernel.reads, reads + 2, "another program deleted the route");
  });

  it("STATE-01: a pass runs in slices, and a Node that changes meanwhile is followed after it", () => {
    const { kernel, clock, objects } = setUp();
    objects.apply([set(OWN), set(NEAR)]);
    const read = kernel.read.bind(kernel);
    kernel.read = function* () {
      for (let slice = 0; slice < 5; slice++) {
        clock.spend(10);
        yield;
      }
      return yield* read();
    };
    const apply = kernel.apply.bind(kernel);
    let isChanged = false;
    kernel.apply = (steps) => {
      if (!isChanged) objects.apply([set(FAR)]);
      isChanged = true;
      clock.spend(30);
      return apply(steps);
    };
    objects.synced();
    let turns = 0;
    for (; kernel.steps.length === 0; turns++) {
      assert.ok(turns < 100, "the pass ends");
      // A millisecond is shorter than a slice, so that each turn has one slice.
      clock.pass(1);
    }
    assert.ok(turns >= 4, `${turns} turns`);
    clock.pass(1000);
    const destinations = kernel.state.routes.map(({ destination }) => destination?.address);
    assert.ok(destinations.includes(parseCidr("10.244.3.0/24").address));
  });
});

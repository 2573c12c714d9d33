import assert from "node:assert/strict";
import { setImmediate as turn } from "node:timers/promises";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { FakeKernelNotifications } from "../../../support/daemon/fake_notifications.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import type { ReceivedMessage } from "../../../../kernel/netlink/message.ts";
import { newRule } from "../../../../kernel/route/rule.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { judge } from "../../../../objects/gate/gate.ts";
import { NodeJudge } from "../../../../objects/nodes/node_judge.ts";
import type { Node, ObjectChange } from "../../../../objects/model.ts";
import { recordingNotices } from "../../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { FakeRouteKernel } from "../../../support/routes/fake_route_kernel.ts";
import { isOurs } from "../../../../policyd/routes/own_routes.ts";
import { RouteReconciler } from "../../../../policyd/routes/route_reconciler.ts";
import { foreignRoute, machine, node, UPLINK } from "../../../support/routes/machine.ts";

const OWN = node("a", ["192.0.2.1", "2001:db8::1"], ["10.244.1.0/24"]);
const NEAR = node("b", ["192.0.2.2"], ["10.244.2.0/24"]);
const FAR = node("c", ["198.51.100.3"], ["10.244.3.0/24"]);
const SYNC_PERIOD = 30_000;
/** A notification that may concern any route. */
const ruleChanged: ReceivedMessage = {
  type: 32,
  flags: 0,
  sequence: 0,
  body: newRule({ family: 4, inputInterface: "x", table: 1, priority: 1 }).body,
};

function set(object: Node): ObjectChange {
  return { type: "set", kind: "Node", key: object.key, object };
}

function serviceCidr(name: string, cidrs: readonly string[]): ObjectChange {
  const verdict = judge({
    apiVersion: "networking.k8s.io/v1",
    kind: "ServiceCIDR",
    metadata: { name },
    spec: { cidrs },
  });
  if (verdict.type !== "accepted") throw new Error("refused");
  return { type: "set", kind: "ServiceCIDR", key: name, object: verdict.object };
}

describe("policyd/routes/route_reconciler", () => {
  let kernel: FakeRouteKernel;
  let clock: FakeClock;
  let events: FakeKernelNotifications;
  let routes: RouteReconciler;
  let clusterEvents: ReturnType<typeof recordingNotices>;

  beforeEach(() => {
    kernel = new FakeRouteKernel(machine());
    clock = new FakeClock();
    events = new FakeKernelNotifications();
    clusterEvents = recordingNotices();
    routes = new RouteReconciler({
      kernel,
      clock,
      logger: recordingLogger(),
      events: clusterEvents,
      nodeName: "a",
      judge: new NodeJudge({ nodeName: "a", serviceCidrs: [parseCidr("fd00:96::/112")] }),
      options: { encapsulation: "auto", bridge: "drawbridge0" },
      syncPeriod: SYNC_PERIOD,
    });
  });

  const destinations = (): readonly (number | bigint | undefined)[] =>
    kernel.state.routes.filter(isOurs).map(({ destination }) => destination?.address);

  it("D1: nothing is written before all objects are read, whatever an earlier daemon has left", () => {
    const stale = { ...foreignRoute("10.244.9.0/24", UPLINK, "192.0.2.9"), protocol: 107, priority: 107 };
    kernel.state = machine({ routes: [...machine().routes, stale] });
    routes.apply([set(OWN), set(NEAR)]);
    clock.pass(SYNC_PERIOD * 2);
    assert.deepEqual(kernel.steps, []);
    routes.synced();
    assert.deepEqual(destinations().length, 2, "the pods of b and the Services");
    assert.ok(!destinations().includes(stale.destination?.address));
  });

  it("POD-21: Nodes that come, change and go are followed, and a failed step is retried and reported", () => {
    routes.apply([set(OWN)]);
    routes.synced();
    routes.apply([set(NEAR), set(FAR)]);
    kernel.refuses = ({ type }) => type === "set-forwarding";
    clock.pass(20);
    assert.deepEqual(kernel.state.tunnel?.forwarding, []);
    assert.match(routes.problems().join(), /^routes: set-forwarding: refused$/);
    kernel.refuses = () => false;
    clock.pass(2000);
    assert.deepEqual(routes.problems(), []);
    assert.equal(kernel.state.tunnel?.forwarding.length, 1);
    routes.apply([{ type: "delete", kind: "Node", key: "c" }, set(node("b", ["192.0.2.7"], ["10.244.2.0/24"]))]);
    clock.pass(20);
    assert.equal(kernel.state.tunnel, undefined);
    assert.deepEqual(kernel.steps.filter(({ type }) => type === "replace-route").length, 1);
  });

  it("COND-01: routes are in force once all are written, and not while one is refused or the desired routes are unknown", () => {
    const found = [routes.areInForce];
    routes.synced();
    found.push(routes.areInForce);
    for (const own of [node("a", [], ["10.244.1.0/24"]), node("a", ["192.0.2.77"], ["10.244.1.0/24"])]) {
      routes.apply([set(own)]);
      clock.pass(1000);
      found.push(routes.areInForce);
    }
    kernel.refuses = ({ type }) => type === "replace-route";
    routes.apply([set(OWN), set(NEAR)]);
    clock.pass(1000);
    found.push(routes.areInForce);
    kernel.refuses = () => false;
    clock.pass(SYNC_PERIOD);
    found.push(routes.areInForce);
    assert.deepEqual(found, [false, false, false, false, false, true]);
  });

  it("POD-21: a Node whose status changes in other ways causes no read", () => {
    routes.apply([set(OWN), set(NEAR)]);
    routes.synced();
    clock.pass(100);
    const [reads, steps] = [kernel.reads, kernel.steps.length];
    routes.apply([set({ ...NEAR, labels: { zone: "z" } })]);
    clock.pass(1000);
    assert.equal(kernel.reads, reads);
    routes.apply([set(node("b", ["192.0.2.7"], ["10.244.2.0/24"]))]);
    clock.pass(20);
    assert.ok(kernel.steps.length > steps);
  });

  it("D10: the pods' MTU is reported when it is known and when it changes, and stays while it is unknown", () => {
    const reported: (number | undefined)[] = [];
    routes.followPodMtu(() => reported.push(routes.podMtu));
    routes.synced();
    assert.equal(routes.podMtu, undefined);
    routes.apply([set(OWN)]);
    clock.pass(20);
    assert.deepEqual(reported, [1450]);
    const withUplink = (changes: object): void => {
      const links = machine().links.map((link) => (link.index === UPLINK ? { ...link, ...changes } : link));
      kernel.state = { ...kernel.state, links };
      clock.pass(SYNC_PERIOD);
    };
    withUplink({ up: false });
    assert.equal(routes.podMtu, 1450);
    withUplink({ mtu: 9000 });
    assert.deepEqual(reported, [1450, 8950]);
  });

  it("D2: a step that the kernel refuses is retried after one second, then two, four and so on", () => {
    routes.apply([set(OWN), set(NEAR)]);
    let tries = 0;
    kernel.refuses = ({ type }) => {
      if (type === "add-route") tries += 1;
      return type === "add-route";
    };
    routes.synced();
    const after = (milliseconds: number): number => {
      tries = 0;
      clock.pass(milliseconds);
      return tries;
    };
    assert.ok(tries > 0);
    assert.equal(after(999), 0);
    assert.ok(after(1) > 0);
    assert.equal(after(1999), 0);
    assert.ok(after(1) > 0);
    assert.equal(after(3999), 0);
  });

  it("D1: a Node that later claims another's pods and address gets neither while the other has them", () => {
    routes.apply([set(OWN), set(FAR)]);
    routes.synced();
    const before = kernel.state;
    const thief = node("b", ["198.51.100.3", "10.244.3.9"], ["10.244.3.0/25"]);
    routes.apply([set(thief)]);
    clock.pass(20);
    assert.deepEqual(kernel.state, before);
    assert.match(
      routes.problems().join("\n"),
      /Node b: pod CIDR 10\.244\.3\.0\/25 overlaps 10\.244\.3\.0\/24 of Node c/,
    );
    routes.apply([{ type: "delete", kind: "Node", key: "c" }]);
    clock.pass(20);
    assert.ok(destinations().includes(parseCidr("10.244.3.0/25").address), "Node b gets the range when Node c is gone");
  });

  it("ALLOC-03: the Service ranges follow ServiceCIDRs that come and go", () => {
    routes.apply([set(OWN)]);
    routes.synced();
    assert.equal(destinations().length, 1);
    routes.apply([serviceCidr("more", ["fd00:97::/112", "10.97.0.0/16"])]);
    clock.pass(20);
    assert.deepEqual(destinations(), [parseCidr("fd00:96::/112").address, parseCidr("fd00:97::/112").address]);
    routes.apply([{ type: "delete", kind: "ServiceCIDR", key: "more" }]);
    clock.pass(20);
    assert.equal(destinations().length, 1);
  });

  it("D2: removed entries are restored after a notification, and after each sync period without one", async () => {
    routes.apply([set(OWN), set(NEAR)]);
    routes.synced();
    await routes.start(events);
    clock.pass(20);
    const good = kernel.state;
    kernel.state = machine();
    events.emit("route", [ruleChanged]);
    clock.pass(20);
    assert.deepEqual(kernel.state, good);
    kernel.state = machine();
    events.overrun("route");
    clock.pass(20);
    assert.deepEqual(kernel.state, good);
    kernel.state = machine();
    clock.pass(SYNC_PERIOD);
    assert.deepEqual(kernel.state, good);
  });

  it("D2: a subscription that the kernel ends or refuses is renewed, and everything is read then", async () => {
    routes.apply([set(OWN), set(NEAR)]);
    routes.synced();
    events.refuseNext("route", new Error("no memory"));
    await routes.start(events);
    const good = kernel.state;
    for (const end of [() => {}, () => events.fail("route", new Error("no memory"))]) {
      end();
      assert.deepEqual(events.sources, []);
      kernel.state = machine();
      clock.pass(5000);
      await turn();
      assert.equal(events.sources.length, 1);
      clock.pass(20);
      assert.deepEqual(kernel.state, good);
    }
    events.fail("route", new Error("no memory"));
    await routes.stop();
    clock.pass(5000);
    await turn();
    assert.deepEqual(events.sources, []);
  });

  it("D2: a program that undoes everything at once is answered at most a few times a second", async () => {
    routes.apply([set(OWN), set(NEAR)]);
    routes.synced();
    await routes.start(events);
    const before = kernel.reads;
    for (let passed = 0; passed < 10_000; passed += 10) {
      kernel.state = machine();
      events.emit("route", [ruleChanged]);
      clock.pass(10);
    }
    const looks = kernel.reads - before;
    assert.ok(looks >= 20 && looks < 100, `${looks} reads in 10 s`);
  });

  it("D2: after a slow read the daemon pauses four times as long, whatever the kernel reports", async () => {
    routes.apply([set(OWN), set(NEAR)]);
    routes.synced();
    await routes.start(events);
    clock.pass(20);
    const read = kernel.read.bind(kernel);
    kernel.read = () => {
      clock.pass(100);
      return read();
    };
    clock.pass(1000);
    const before = kernel.reads;
    for (let passed = 0; passed < 10_000; passed += 10) {
      events.emit("route", [ruleChanged]);
      clock.pass(10);
    }
    const looks = kernel.reads - before;
    assert.ok(looks >= 10 && looks <= 26, `${looks} reads of 100 ms in 10 s plus their own time`);
  });

  it("D9: while the desired routes are unknown all routes stay, and the reason is in the status", () => {
    routes.apply([set(OWN), set(NEAR)]);
    routes.synced();
    const good = kernel.state;
    routes.apply([{ type: "delete", kind: "Node", key: "a" }]);
    clock.pass(20);
    assert.equal(kernel.state, good);
    assert.deepEqual(routes.problems(), ["routes: no Node object has this node's name: routes stay as they are"]);
    routes.apply([set(OWN)]);
    kernel.failure = new DrawbridgeError("ERR_NETLINK", "list links: no answer");
    clock.pass(20);
    assert.deepEqual(routes.problems(), ["routes: list links: no answer"]);
    clock.pass(2000);
    assert.deepEqual(routes.problems(), []);
  });

  it("EVENT-07: a problem with routes gives the Node one Event for as long as it lasts", () => {
    routes.apply([set(NEAR)]);
    routes.synced();
    for (let left = 5; left > 0; left--) clock.pass(SYNC_PERIOD);
    const note = "no Node object has this node's name: routes stay as they are";
    const regarding = { kind: "Node", key: "a", uid: "" };
    assert.deepEqual(clusterEvents.notices, [{ regarding, reason: "RoutesProblem", note }]);
  });
});

import assert from "node:assert/strict";
import { desiredBridges } from "../../../../cni/node_state/desired.ts";
import { ALL_RESERVED_GROUPS } from "../../../../cni/wiring/wiring.ts";
import { FakeNodeState } from "../../../support/node_state/fake_node_state.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { FakeKernelNotifications } from "../../../support/daemon/fake_notifications.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { encodeAttributes, nested, string, u16, u32, u8 } from "../../../../kernel/netlink/attribute.ts";
import type { ReceivedMessage, Request } from "../../../../kernel/netlink/message.ts";
import { encodeStruct } from "../../../../kernel/netlink/struct.ts";
import { Writer } from "../../../../kernel/byte_writer.ts";
import { deleteAddress } from "../../../../kernel/route/interface_address.ts";
import { deleteLink } from "../../../../kernel/route/link.ts";
import { deleteNeighbour } from "../../../../kernel/route/neighbour.ts";
import { AF_BRIDGE, Notification } from "../../../../kernel/route/notification.ts";
import { deleteReceivedFilters } from "../../../../kernel/traffic_control/filter.ts";
import { fakeSysctl } from "../../../support/fake_sysctl.ts";
import { AttachmentRegistry } from "../../../../policyd/attachments/registry.ts";
import { FakeClock } from "../../../support/fake_clock.ts";
import { recordingNotices } from "../../../../policyd/events/notice.ts";
import { recordingLogger } from "../../../../policyd/log/recording_logger.ts";
import { NodeStateReconciler } from "../../../../policyd/node_state/node_state_reconciler.ts";
import { NodeStateReport } from "../../../../policyd/node_state/report.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { recordOf, RECORDS } from "../../../support/node_state/records.ts";

const SYNC_PERIOD = 30_000;
const SETTLE = 20;

interface ReportedPort {
  readonly master: number;
  readonly up: boolean;
  readonly hairpin: boolean;
  readonly groups: number;
}

/** The bridge's notification about its port (br_fill_ifinfo in net/bridge/br_netlink.c). */
function reportedByBridge(name: string, index: number, { master, up, hairpin, groups }: ReportedPort): ReceivedMessage {
  const body = new Writer(256);
  const header = { family: "u8", pad: "u8", type: "u16", index: "i32", flags: "u32", change: "u32" } as const;
  encodeStruct(body, header, { family: AF_BRIDGE, type: 1, index, flags: up ? 1 : 0 });
  const ofPort = { hairpin: [4, u8], groups: [31, u16] } as const;
  encodeAttributes(body, { name: [3, string], master: [10, u32], port: [12, nested(ofPort)] } as const, {
    name,
    master,
    port: { hairpin: hairpin ? 1 : 0, groups },
  });
  return { type: Notification.NEWLINK, flags: 0, sequence: 0, body: body.view() };
}

/** The kernel's notification about `conf/all` of IPv4. */
const SETTINGS_CHANGED: ReceivedMessage = {
  type: Notification.NEWNETCONF,
  flags: 0,
  sequence: 0,
  body: Uint8Array.of(2, 0, 0, 0, 8, 0, 1, 0, 255, 255, 255, 255),
};

/** The notification of a deletion, which has the form of the request to delete. */
function reported({ type, body }: Request): ReceivedMessage {
  return { type, flags: 0, sequence: 0, body };
}

describe("policyd/node_state", () => {
  let kernel: FakeNodeState;
  let clock: FakeClock;
  let events: FakeKernelNotifications;
  let attachments: AttachmentRegistry;
  let settings: Map<string, string>;
  let notices: ReturnType<typeof recordingNotices>;
  let report: NodeStateReport;
  let forbidden: string | undefined;
  let state: NodeStateReconciler;

  beforeEach(async () => {
    const [desired] = desiredBridges(RECORDS);
    assert.ok(desired !== undefined);
    kernel = new FakeNodeState(desired);
    clock = new FakeClock();
    events = new FakeKernelNotifications();
    attachments = new AttachmentRegistry();
    for (const record of RECORDS) attachments.add(record);
    settings = kernel.settings;
    settings.set("net/ipv4/ip_forward", "1");
    settings.set("net/ipv6/conf/all/forwarding", "1");
    notices = recordingNotices();
    forbidden = undefined;
    report = new NodeStateReport({ logger: recordingLogger(), events: notices, nodeName: "n" });
    state = new NodeStateReconciler({
      kernel,
      sysctl: fakeSysctl(settings),
      clock,
      report,
      attachments,
      uplinks: () => ["eth0"],
      isForbidden: (bridge) => bridge === forbidden,
      syncPeriod: SYNC_PERIOD,
    });
  });

  async function start(): Promise<void> {
    await state.start(events);
    kernel.looks.length = 0;
  }

  it("STATE-01: damage done while no daemon ran is repaired at the start, before any object is read", async () => {
    kernel.deleteBridge();
    await start();
    assert.equal(kernel.addresses.length, 2);
    assert.ok((report.repairs.get("port") ?? 0) >= 2);
    assert.deepEqual(state.problems(), []);
  });

  it("STATE-01: a repair after a notification reads only the subject of the notification", async () => {
    await start();
    kernel.neighbours.delete(parseAddress("10.244.1.3"));
    events.emit("route", [reported(deleteNeighbour(kernel.bridge?.index ?? 0, parseAddress("10.244.1.3")))]);
    clock.pass(SETTLE);
    assert.equal(kernel.neighbours.size, 4);
    assert.deepEqual(
      kernel.looks.map(({ ports }) => ports),
      [new Set(["dbv000000000003"]), new Set(["dbv000000000003"])],
    );
    assert.deepEqual([...report.repairs], [["neighbour", 1]]);
  });

  it("STATE-02: a notification about a link, address or neighbour that is not ours causes no read", async () => {
    await start();
    events.emit("route", [
      reported(deleteLink({ name: "docker0" })),
      reported(deleteAddress(2, parseCidr("10.244.1.1/24"))),
      reported(deleteAddress(kernel.bridge?.index ?? 0, parseCidr("10.9.9.9/24"))),
      reported(deleteNeighbour(2, parseAddress("10.244.1.3"))),
      reported(deleteNeighbour(kernel.bridge?.index ?? 0, parseAddress("10.244.1.77"))),
    ]);
    clock.pass(SETTLE);
    assert.deepEqual(kernel.looks, []);
  });

  it("STATE-02: the bridge's notification about a correct port causes no read, and one about a changed port does", async () => {
    await start();
    const [name] = kernel.ports.keys();
    const port = kernel.ports.get(name ?? "")?.link?.index ?? 0;
    const bridge = kernel.bridge?.index ?? 0;
    assert.ok(name !== undefined);
    const right = { master: bridge, up: true, hairpin: true, groups: ALL_RESERVED_GROUPS };
    events.emit("route", [reportedByBridge(name, port, right)]);
    clock.pass(SETTLE);
    assert.deepEqual(kernel.looks, []);
    const changes = [{ master: 2 }, { up: false }, { hairpin: false }, { groups: 0 }];
    for (const change of changes) {
      events.emit("route", [reportedByBridge(name, port, { ...right, ...change })]);
      clock.pass(SETTLE);
    }
    assert.equal(kernel.looks.length, changes.length);
    events.emit("route", [reportedByBridge(name, port + 100, right)]);
    clock.pass(SETTLE);
    assert.equal(kernel.looks.length, changes.length + 1, "another link with the same name");
  });

  it("STATE-01: a change without a notification is found after the sync period, or when notifications were lost", async () => {
    await start();
    kernel.addresses = [];
    kernel.routes = [];
    clock.pass(SYNC_PERIOD);
    assert.equal(kernel.addresses.length, 2);
    kernel.deleteBridge();
    events.overrun("route");
    assert.equal(kernel.addresses.length, 2);
  });

  it("STATE-01: a sync period reads only the bridge, and every tenth all ports, or the next one where a repair has failed", async () => {
    await start();
    const [port] = kernel.ports.keys();
    const link = kernel.ports.get(port ?? "")?.link;
    assert.ok(port !== undefined && link !== undefined);
    kernel.ports.set(port, { link: { ...link, master: undefined }, entry: undefined, filters: undefined });
    clock.pass(9 * SYNC_PERIOD);
    assert.equal(kernel.ports.get(port)?.link?.master, undefined);
    assert.ok(kernel.looks.every(({ ports, ways }) => ports !== "all" && ways !== "all"));
    kernel.refusal = ({ type }) => (type === "change-port" ? new DrawbridgeError("ERR_NETLINK", "no") : undefined);
    clock.pass(SYNC_PERIOD);
    assert.match(state.problems().join(), /could not make dbv.* a port of the bridge/);
    kernel.refusal = undefined;
    clock.pass(SYNC_PERIOD);
    assert.equal(kernel.ports.get(port)?.link?.master, kernel.bridge?.index);
    assert.deepEqual(state.problems(), []);
  });

  it("STATE-01: settings of the bridge are read twice a second, since the kernel reports few of their changes", async () => {
    await start();
    settings.set("net/ipv6/conf/cni0/accept_ra", "2");
    clock.pass(500 + SETTLE);
    assert.equal(settings.get("net/ipv6/conf/cni0/accept_ra"), "0");
  });

  it("STATE-01: a pod's filters are repaired, too, where the kernel reported its link before the plugin registered the pod", async () => {
    const [first, late] = RECORDS;
    assert.ok(first !== undefined && late !== undefined);
    attachments.remove(late);
    await start();
    const port = kernel.ports.get(late.hostInterface);
    assert.ok(port?.link !== undefined);
    const { index } = port.link;
    const right = { master: kernel.bridge?.index ?? 0, up: true, hairpin: true, groups: ALL_RESERVED_GROUPS };
    events.emit("route", [reportedByBridge(late.hostInterface, index, right)]);
    attachments.add(late);
    await state.register(late);
    clock.pass(SETTLE);
    kernel.ports.set(late.hostInterface, { ...port, filters: { hasPlace: true, targets: [], hasOthers: false } });
    events.emit("route", [reported(deleteReceivedFilters(index, 0))]);
    clock.pass(SETTLE);
    assert.equal(kernel.ports.get(late.hostInterface)?.filters?.targets.length, 2);
  });

  it("STATE-02: a pod whose DEL is under way and a bridge without pods are not repaired", async () => {
    await start();
    for (const record of RECORDS) await state.unregister(record);
    kernel.deleteBridge();
    events.overrun("route");
    assert.equal(kernel.bridge, undefined);
    await state.register(recordOf(2));
    events.overrun("route");
    assert.notEqual(kernel.bridge, undefined);
  });

  it("FOREIGN-02: a bridge that is refused stays unchanged, also during an ADD, and is repaired once it is ours", async () => {
    forbidden = "cni0";
    kernel.addresses = kernel.addresses.slice(1);
    settings.set("net/ipv6/conf/cni0/accept_ra", "2");
    await start();
    events.overrun("route");
    await state.register(recordOf(4));
    clock.pass(SYNC_PERIOD);
    assert.deepEqual(
      [kernel.steps, kernel.looks, state.problems(), state.condition.missing()],
      [[], [], [], undefined],
    );
    forbidden = undefined;
    clock.pass(500 + SETTLE);
    assert.deepEqual([kernel.addresses.length, settings.get("net/ipv6/conf/cni0/accept_ra")], [2, "0"]);
  });

  it("STATE-03: a repair that the kernel refuses is in the status, an Event and the readiness until it succeeds", async () => {
    kernel.refusal = ({ type }) =>
      type === "add-address" ? new DrawbridgeError("ERR_NETLINK", "add address: no room") : undefined;
    kernel.addresses = [];
    kernel.routes = [];
    assert.equal(state.condition.missing(), "not looked at yet");
    await start();
    const text =
      "bridge cni0: could not give the bridge the address 10.244.1.1/24; give the bridge the address fd00:244:1::1/64 (add address: no room)";
    assert.deepEqual(state.problems(), [`node: ${text}`]);
    assert.equal(state.condition.missing(), text);
    clock.pass(SYNC_PERIOD);
    assert.deepEqual(
      notices.notices.map(({ reason, note, regarding }) => [reason, note, regarding.key]),
      [["NodeStateProblem", text, "n"]],
    );
    kernel.refusal = undefined;
    clock.pass(SYNC_PERIOD);
    assert.deepEqual(state.problems(), []);
    assert.equal(state.condition.missing(), undefined);
  });

  it("STATE-03: forwarding that the administrator has switched off is reported and never changed", async () => {
    await start();
    settings.set("net/ipv4/ip_forward", "0");
    clock.pass(500);
    assert.deepEqual(state.problems(), []);
    events.emit("route", [SETTINGS_CHANGED]);
    clock.pass(500);
    assert.match(
      state.problems()[0] ?? "",
      /^node: net\.ipv4\.ip_forward is 0: .*run sysctl -w net\.ipv4\.ip_forward=1/,
    );
    assert.match(state.condition.missing() ?? "", /ip_forward/);
    assert.equal(settings.get("net/ipv4/ip_forward"), "0");
    settings.set("net/ipv4/ip_forward", "1");
    settings.set("net/ipv4/conf/eth0/forwarding", "0");
    settings.set("net/ipv6/conf/all/disable_ipv6", "1");
    clock.pass(5000);
    assert.equal(state.problems().length, 2);
    assert.deepEqual([settings.get("net/ipv4/conf/eth0/forwarding"), notices.notices.length], ["0", 3]);
  });

  it("STATE-04: a program that undoes a repair at once is answered at most twice a second and reported once", async () => {
    await start();
    for (let passed = 0; passed < 20_000; passed += 10) {
      if (kernel.addresses.length === 2) {
        const [address] = kernel.addresses;
        assert.ok(address !== undefined);
        kernel.addresses = kernel.addresses.slice(1);
        kernel.routes = kernel.routes.slice(1);
        events.emit("route", [reported(deleteAddress(kernel.bridge?.index ?? 0, address))]);
      }
      clock.pass(10);
    }
    const repairs = report.repairs.get("address") ?? 0;
    assert.ok(repairs >= 30 && repairs < 60, `${repairs} repairs in 20 s`);
    assert.equal(state.problems().filter((text) => text.includes("keeps changing bridge cni0")).length, 1);
    assert.equal(notices.notices.length, 1);
    clock.pass(SYNC_PERIOD);
    assert.deepEqual(state.problems(), [], "it is over when the program gives up");
  });

  it("a check that is due after the node state has stopped does nothing", async () => {
    await start();
    await state.stop();
    kernel.deleteBridge();
    clock.pass(SYNC_PERIOD);
    assert.equal(kernel.bridge, undefined);
  });
});

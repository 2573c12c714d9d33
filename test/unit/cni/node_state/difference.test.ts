import assert from "node:assert/strict";
import { type DesiredBridge, desiredBridges } from "../../../../cni/node_state/desired.ts";
import { repairSteps, stepText } from "../../../../cni/node_state/difference.ts";
import { FakeNodeState } from "../../../support/node_state/fake_node_state.ts";
import { EVERYTHING } from "../../../../cni/node_state/observed.ts";
import { problemsOf } from "../../../../cni/node_state/problems.ts";
import { settle } from "../../../../cni/node_state/settle.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import { recordOf, RECORDS } from "../../../support/node_state/records.ts";

const PORT = RECORDS[0]?.hostInterface ?? "";

function only(records = RECORDS): DesiredBridge {
  const [desired] = desiredBridges(records);
  assert.ok(desired !== undefined);
  return desired;
}

function textsOf(kernel: FakeNodeState, desired: DesiredBridge): readonly string[] {
  return repairSteps(desired, kernel.observe(desired, EVERYTHING)).map(stepText);
}

describe("cni/node_state", () => {
  let desired: DesiredBridge;
  let kernel: FakeNodeState;

  beforeEach(() => {
    desired = only();
    kernel = new FakeNodeState(desired);
  });

  it("STATE-01: a node in the state that its records describe needs no step", () => {
    assert.deepEqual(textsOf(kernel, desired), []);
    assert.deepEqual(settle(kernel, desired, EVERYTHING).repaired, []);
  });

  it("STATE-01: a deleted bridge is made again, with its addresses, ports, filters and neighbour entries", () => {
    const before = kernel.observe(desired, EVERYTHING);
    kernel.deleteBridge();
    const { repaired, remaining } = settle(kernel, desired, { ports: new Set(), ways: new Set(), hasFilters: false });
    assert.deepEqual(remaining, []);
    assert.ok(repaired.length > 5);
    const after = kernel.observe(desired, EVERYTHING);
    const { index = 0 } = after.link ?? {};
    assert.notEqual(index, before.link?.index);
    assert.deepEqual(after.addresses, before.addresses);
    for (const { link, filters } of after.ports.values()) {
      assert.equal(link?.master, index);
      assert.deepEqual(filters?.targets, [index, index]);
    }
    assert.deepEqual(after.neighbours, before.neighbours);
  });

  it("STATE-01: a bridge whose MAC address, MTU and STP have changed, and which is down, is repaired in one step", () => {
    const { bridge } = kernel;
    assert.ok(bridge !== undefined);
    kernel.bridge = { ...bridge, mac: parseMac("02:00:00:00:00:09"), mtu: 1280, up: false, bridge: { stp: true } };
    assert.deepEqual(textsOf(kernel, desired), [
      "change the bridge: stp false, mac ce:00:00:00:00:01, mtu 1450, up true",
    ]);
  });

  it("STATE-01: a MAC address that any ADD found is right, and the MTU is that of the pod with the smallest", () => {
    const { bridge } = kernel;
    assert.ok(bridge !== undefined);
    desired = only([...RECORDS, recordOf(9, { mtu: 1400 })]);
    kernel = new FakeNodeState(desired);
    assert.deepEqual(textsOf(kernel, desired), []);
    kernel.bridge = { ...bridge, mtu: 1450 };
    assert.deepEqual(textsOf(kernel, desired), ["change the bridge: mtu 1400"]);
  });

  it("STATE-01: a missing address, a missing route and a missing neighbour entry are made", () => {
    kernel.addresses = kernel.addresses.filter(({ address }) => typeof address !== "number");
    kernel.routes = [];
    kernel.neighbours.delete(parseAddress("10.244.1.2"));
    const texts = textsOf(kernel, desired);
    assert.ok(texts.includes("give the bridge the address 10.244.1.1/24"));
    assert.ok(texts.includes("make the route of the bridge's address fd00:244:1::1/64"));
    assert.ok(texts.includes("set the bridge's neighbour entry of 10.244.1.2"));
    assert.deepEqual(settle(kernel, desired, EVERYTHING).remaining, []);
    assert.deepEqual(textsOf(kernel, desired), []);
  });

  it("STATE-01: a pod's address outside of the bridge's subnets gets its own route back", () => {
    desired = only([recordOf(2, { routes: ["10.250.0.9/32"] }, ["10.250.0.9/32"])]);
    kernel = new FakeNodeState(desired);
    kernel.routes = [];
    assert.ok(textsOf(kernel, desired).includes("make the route to 10.250.0.9/32"));
    assert.deepEqual(settle(kernel, desired, EVERYTHING).remaining, []);
  });

  it("STATE-01: a bridge setting that another program has changed is set again", () => {
    kernel.settings.set("net/ipv4/conf/cni0/forwarding", "0");
    assert.deepEqual(textsOf(kernel, desired), ["set net/ipv4/conf/cni0/forwarding to 1"]);
    kernel.settings.delete("net/ipv6/conf/cni0/forwarding");
    kernel.settings.set("net/ipv4/conf/cni0/forwarding", "1");
    assert.deepEqual(textsOf(kernel, desired), [], "a setting that the kernel does not have needs no step");
  });

  it("STATE-01: a port that is down, blocked, on another bridge, or without its MTU, its flags or its MAC address is repaired", () => {
    const port = kernel.ports.get(PORT);
    assert.ok(port?.link?.bridgePort !== undefined);
    const { link } = port;
    const { bridgePort } = port.link;
    for (const changed of [
      { ...link, up: false },
      { ...link, mtu: 1400 },
      { ...link, master: 77 },
      { ...link, master: undefined, bridgePort: undefined },
      { ...link, mac: parseMac("02:00:00:00:00:07") },
      { ...link, bridgePort: { ...bridgePort, hairpin: false } },
      { ...link, bridgePort: { ...bridgePort, multicastRouter: 1 } },
      { ...link, bridgePort: { ...bridgePort, groupForwardMask: 0 } },
      { ...link, bridgePort: { ...bridgePort, state: 1 } },
    ]) {
      kernel.ports.set(PORT, { ...port, link: changed });
      assert.deepEqual(textsOf(kernel, desired), [
        `make ${PORT} of pod default/web-2 a port of the bridge, up, with its MTU and flags`,
      ]);
    }
  });

  it("STATE-01: a delay device that is down or without its filter is repaired, and one that is gone is reported", () => {
    const delay = `have ${PORT.replace("dbv", "dbi")} delay what ${PORT} of pod default/web-2 sends`;
    const bandwidth = { ingressRate: 0, ingressBurst: 0, egressRate: 1e6, egressBurst: 1e6 };
    desired = only([{ ...recordOf(2), bandwidth }]);
    kernel = new FakeNodeState(desired);
    const port = kernel.ports.get(PORT);
    assert.ok(port?.delay !== undefined && port.filters !== undefined);
    assert.deepEqual(textsOf(kernel, desired), []);
    for (const changed of [
      { ...port, delay: { ...port.delay, up: false } },
      { ...port, filters: { ...port.filters, hasOthers: false } },
    ]) {
      kernel.ports.set(PORT, changed);
      assert.deepEqual(textsOf(kernel, desired), [delay]);
      assert.deepEqual(settle(kernel, desired, EVERYTHING).remaining, []);
      assert.deepEqual(textsOf(kernel, desired), []);
    }
    kernel.ports.set(PORT, { ...port, delay: undefined });
    const [problem] = problemsOf(desired, settle(kernel, desired, EVERYTHING));
    assert.deepEqual(problem, {
      text: `bridge cni0: could not ${delay}: it is gone, so recreate the pod`,
      isCut: true,
    });
  });

  it("STATE-01: filters that lead to a bridge that is gone are replaced", () => {
    const port = kernel.ports.get(PORT);
    assert.ok(port !== undefined);
    kernel.ports.set(PORT, { ...port, filters: { targets: [0, 0], hasOthers: false } });
    assert.deepEqual(textsOf(kernel, desired), [
      `remove filters of ${PORT} that lead to another bridge`,
      `lead packets of ${PORT} of pod default/web-2 around the bridge`,
    ]);
  });

  it("STATE-02: where another program has filters at a port, its packets go through the bridge", () => {
    const port = kernel.ports.get(PORT);
    assert.ok(port !== undefined);
    kernel.ports.set(PORT, { ...port, filters: { targets: [], hasOthers: true } });
    assert.deepEqual(textsOf(kernel, desired), []);
  });

  it("STATE-02: a port that an ADD is still making, and another program's link with a port's name, are not changed", () => {
    const port = kernel.ports.get(PORT);
    assert.ok(port?.link !== undefined);
    for (const link of [
      { ...port.link, alias: undefined },
      { ...port.link, mac: parseMac("02:00:00:00:00:07"), alias: "of another program" },
      undefined,
    ]) {
      kernel.ports.set(PORT, { ...port, link: link && { ...link, up: false }, entry: undefined, filters: undefined });
      assert.deepEqual(textsOf(kernel, desired), []);
    }
  });

  it("STATE-02: an address that two records have gets no neighbour entry until one record is gone", () => {
    const [first] = RECORDS;
    assert.ok(first !== undefined);
    desired = only([first, { ...first, containerId: "other", hostInterface: "dbvffffffffffff" }]);
    kernel = new FakeNodeState(desired);
    kernel.neighbours.clear();
    assert.deepEqual(textsOf(kernel, desired), []);
  });

  it("STATE-02: a link of another kind with the bridge's name is kept and reported", () => {
    const { bridge } = kernel;
    assert.ok(bridge !== undefined);
    kernel.bridge = { ...bridge, kind: "dummy" };
    assert.deepEqual(textsOf(kernel, desired), []);
    const settled = settle(kernel, desired, EVERYTHING);
    const [problem] = problemsOf(desired, settled);
    assert.match(problem?.text ?? "", /^cni0 is not a bridge \(kind dummy\): remove it/);
    assert.equal(problem?.isCut, true);
  });

  it("STATE-03: another program's route that leads a pod's packets elsewhere is reported with the way out", () => {
    kernel.ways.set(parseAddress("10.244.1.3"), { error: "EINVAL" });
    const settled = settle(kernel, desired, EVERYTHING);
    const problems = problemsOf(desired, settled);
    assert.equal(problems.length, 1);
    assert.match(
      problems[0]?.text ?? "",
      /^the node sends packets for 1 pod addresses, such as 10\.244\.1\.3, to nowhere \(EINVAL\) instead of bridge cni0: remove/,
    );
  });

  it("STATE-03: a refused repair is a problem with the kernel's reason, and isCut says whether pods are cut off", () => {
    kernel.refusal = ({ type }) =>
      type === "add-address" ? new DrawbridgeError("ERR_NETLINK", "add address: no room") : undefined;
    kernel.addresses = kernel.addresses.slice(1);
    kernel.routes = kernel.routes.slice(1);
    const settled = settle(kernel, desired, EVERYTHING);
    assert.deepEqual(settled.repaired, []);
    assert.deepEqual(problemsOf(desired, settled), [
      { text: "bridge cni0: could not give the bridge the address 10.244.1.1/24 (add address: no room)", isCut: true },
    ]);
    assert.ok(kernel.steps.length <= 5, "the repair is not tried for ever");
  });
});

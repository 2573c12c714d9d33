import assert from "node:assert/strict";
import type { CniArguments } from "../../../../cni/environment.ts";
import { podSteps } from "../../../../cni/wiring/pod_link.ts";
import type { Step } from "../../../../cni/wiring/steps.ts";
import { type Bridge, decideWiring, type Wiring } from "../../../../cni/wiring/wiring.ts";
import type { Allocation } from "../../../../ipam/store.ts";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import { parseRoute } from "../../../../kernel/route/route.ts";
import { attachment, configurationOf, ipamInput, networkInput, noArguments, sha256 } from "../../../support/cni/cni.ts";

const ipv4: Allocation = { address: parseCidr("10.244.1.7/24"), gateway: parseAddress("10.244.1.1"), set: 0 };
const ipv6: Allocation = { address: parseCidr("fd00:244:1::7/64"), gateway: parseAddress("fd00:244:1::1"), set: 1 };
const bridge = { index: 9, name: "cni0", mac: parseMac("ce:00:00:00:00:01"), mtu: 1500, wasOperational: true };

function wiringOf(
  input: Record<string, unknown> = networkInput(),
  allocations: readonly Allocation[] = [ipv4, ipv6],
  args: CniArguments = noArguments,
  on: Bridge = bridge,
): Wiring {
  return decideWiring(configurationOf(input, args), attachment({ arguments: args }), allocations, on, sha256);
}

/** Returns the operation of each step, and after a "?" the errno with which it may be refused. */
function operations(steps: readonly Step[]): readonly string[] {
  return steps.map(({ request, tolerates }) => request.operation + (tolerates === undefined ? "" : ` ?${tolerates}`));
}

describe("cni/wiring decides", () => {
  it("a default route through the bridge for each family of the pod and no other (POD-14)", () => {
    const routes = (allocations: readonly Allocation[]): readonly string[] =>
      wiringOf(networkInput(), allocations).routes.map(
        (route) => `${formatCidr(route.destination)} ${formatAddress(route.gateway)}`,
      );
    assert.deepEqual(routes([ipv4, ipv6]), ["0.0.0.0/0 10.244.1.1", "::/0 fd00:244:1::1"]);
    assert.deepEqual(routes([ipv6]), ["::/0 fd00:244:1::1"]);
    assert.deepEqual(routes([ipv6, { ...ipv6, set: 2 }]), ["::/0 fd00:244:1::1"]);
  });

  it("only configured default routes where isDefaultGateway is false (POD-14)", () => {
    const routes = [{ dst: "10.96.0.0/12" }, { dst: "::/0" }];
    const wiring = wiringOf({ ...ipamInput({ routes }), isDefaultGateway: false });
    assert.deepEqual(
      wiring.routes.map(({ destination, isImplicit }) => [formatCidr(destination), isImplicit]),
      [
        ["10.96.0.0/12", false],
        ["::/0", false],
      ],
    );
    assert.deepEqual(wiringOf(networkInput({ isDefaultGateway: false })).routes, []);
  });

  it("configured routes first, by the bridge where they name no gateway, and no default route twice (POD-14)", () => {
    const input = ipamInput({
      routes: [
        { dst: "0.0.0.0/0", gw: "10.244.1.99" },
        { dst: "10.96.0.0/12" },
        { dst: "10.96.0.0/12", gw: "10.244.1.98" },
        { dst: "fd00:96::/112", gw: "" },
      ],
    });
    const expected = [
      "0.0.0.0/0 10.244.1.99",
      "10.96.0.0/12 10.244.1.1",
      "fd00:96::/112 fd00:244:1::1",
      "::/0 fd00:244:1::1",
    ];
    const routes = wiringOf(input).routes.map(
      (route) => `${formatCidr(route.destination)} ${formatAddress(route.gateway)}`,
    );
    assert.deepEqual(routes, expected);
    assert.deepEqual(wiringOf(input, [ipv4]).routes.length, 2);
  });

  it("routes to one destination by priority and table, and a default route unless the main table has one (POD-14)", () => {
    const routes = (...list: readonly object[]): readonly string[] =>
      wiringOf(ipamInput({ routes: list }), [ipv4]).routes.map(({ destination, table, priority, isImplicit }) =>
        [formatCidr(destination), table, priority, isImplicit].join(" "),
      );
    const everywhere = { dst: "0.0.0.0/0" };
    assert.deepEqual(routes({ ...everywhere, table: 100 }, { ...everywhere, table: 100, priority: 7 }), [
      "0.0.0.0/0 100  false",
      "0.0.0.0/0 100 7 false",
      "0.0.0.0/0   true",
    ]);
    assert.deepEqual(routes({ ...everywhere, priority: 7 }), ["0.0.0.0/0  7 false"]);
    assert.deepEqual(routes({ ...everywhere, table: 254 }, everywhere), ["0.0.0.0/0 254  false"]);
  });

  it("a MAC from the IPv4 address, or else from the IPv6 one, unless the runtime requests another (B6)", () => {
    assert.equal(wiringOf(networkInput(), [ipv6, ipv4]).podMac, "0a:58:0a:f4:01:07");
    const otherSubnet = { ...ipv6, address: parseCidr("fd00:244:2::7/64") };
    const [mac, other] = [ipv6, otherSubnet].map((allocation) => wiringOf(networkInput(), [allocation]).podMac);
    assert.match(mac ?? "", /^0e:/);
    assert.notEqual(mac, other);
    assert.equal(wiringOf(networkInput({ runtimeConfig: { mac: "02:00:00:00:00:01" } })).podMac, "02:00:00:00:00:01");
  });

  it("an alias with the interface's owner, cut to what the kernel takes (B23)", () => {
    assert.equal(wiringOf().alias, "c1");
    const pod = { namespace: "kube-system", name: "coredns-0", uid: "" };
    assert.equal(wiringOf(networkInput(), [ipv4], { ...noArguments, pod }).alias, "kube-system/coredns-0");
    const long = { namespace: "n".repeat(63), name: "p".repeat(253), uid: "" };
    assert.equal(wiringOf(networkInput(), [ipv4], { ...noArguments, pod: long }).alias.length, 254);
  });

  it("nothing without an address", () => {
    assert.throws(() => wiringOf(networkInput(), []), RangeError);
  });
});

describe("cni/wiring asks the kernel", () => {
  const wiring = wiringOf(networkInput({ hairpinMode: true }), [ipv4, ipv6], noArguments, { ...bridge, mtu: 1400 });

  it("SHARE-04: a pod's route to link-local destinations has a metric for each link, before the kernel's own", () => {
    for (const [index, metric] of [
      [5, 6],
      [6, 7],
      [254, 255],
      [255, 1],
      [256, 2],
      [1000, 236],
    ] as const) {
      const { request } = podSteps(wiring, index).at(-1) ?? assert.fail();
      assert.equal(parseRoute({ type: request.type, flags: 0, sequence: 1, body: request.body })?.priority, metric);
    }
    assert.ok(
      !operations(podSteps(wiringOf(networkInput(), [ipv4]), 5)).some((operation) => operation.includes("fe80")),
    );
  });

  it("for one neighbour entry of each gateway", () => {
    const second = { ...ipv6, address: parseCidr("fd00:244:1::8/64"), set: 1 };
    const twice = operations(podSteps(wiringOf(networkInput(), [ipv6, second]), 5));
    assert.equal(twice.filter((operation) => operation.startsWith("set neighbour")).length, 1);
  });
});

import assert from "node:assert/strict";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import { tunnelMac } from "../../../policyd/routes/tunnel_mac.ts";
import { UPLINK } from "../../lab/topology.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { requireKernel } from "../../support/privilege.ts";
import { flow, nodeObject, ours, RouteLab, untilProblem } from "../../support/routes/route_lab.ts";
import { listOf, serviceObjects } from "../../support/services/manifest.ts";
import { until } from "../../support/until.ts";

/** An IPv6 Service whose endpoint is the pod of node1, and the range of its address. */
const SERVICE = [
  {
    apiVersion: "networking.k8s.io/v1",
    kind: "ServiceCIDR",
    metadata: { name: "kubernetes" },
    spec: { cidrs: ["fd00:96::/112"] },
  },
  ...serviceObjects(
    "default/web",
    ["fd00:96::10"],
    [{ protocol: "TCP", port: 8080, targetPort: 8080 }],
    [{ addresses: { 6: parseAddress("fd00:244:1::2") }, nodeName: "node1" }],
  ),
];

describe("routes of a node when Nodes, links and addresses change", function () {
  this.timeout(300_000);
  let on: RouteLab;
  /** The daemon of node1. */
  let daemon: DaemonProcess;

  before(async function () {
    requireKernel(this);
    on = new RouteLab("routes-changes");
    const [first] = await on.start();
    daemon = first ?? assert.fail();
  });
  after(() => on?.[Symbol.dispose]());

  const routesOf = (family: 4 | 6, place = 0): string =>
    on.nodes[place]?.wired.node.exec("ip", [`-${family}`, "route", "show"]) ?? "";

  it("SVC-19 ALLOC-03: a node reaches a ClusterIP of a family without a default route while the Services' range is known", async () => {
    const [near, , far] = on.nodes;
    const address = parseAddress("fd00:96::10");
    on.put("service.json", listOf(SERVICE));
    for (const { wired } of [near, far]) assert.equal(wired.node.exec("ip", ["-6", "route", "show", "default"]), "");
    const results = await on.untilReached([near, far].map(({ wired }) => flow(wired.node, address)));
    assert.deepEqual(
      results.map(({ seenBy }) => seenBy?.name),
      ["pod1", "pod1"],
    );
    assert.doesNotMatch(routesOf(4), /10\.96\./, "IPv4 has a default route");
    on.put("service.json", listOf(SERVICE.slice(1)));
    await until(
      () => !routesOf(6).includes("fd00:96:"),
      () => routesOf(6),
    );
    on.put("service.json", "");
  });

  it("D1 POD-21: a removed node leaves no route and no tunnel on another node, and is reached again once it is back", async () => {
    const [, , far] = on.nodes;
    const { node } = on.nodes[0].wired;
    const good = ours(node);
    on.put("nodes.json", on.nodeList({ [far.name]: undefined }));
    const left = (): string => ours(node);
    await until(() => !/10\.244\.3|fd00:244:3|drawbridge|107:/.test(left()), left);
    assert.ok(!node.links().some(({ name }) => name === TUNNEL.name));
    on.put("nodes.json", on.nodeList());
    await until(
      () => left() === good,
      () => `${left()}\nexpected\n${good}`,
    );
    await on.untilPodsReachPods();
  });

  it("D1 POD-21: all routes stay at SIGTERM, and the next start removes only those to a node that was removed meanwhile", async () => {
    const [near, , far] = on.nodes;
    const { node } = near.wired;
    const kept = ours(node);
    await daemon.kill("SIGTERM");
    assert.equal(ours(node), kept);
    on.put("nodes.json", on.nodeList({ [far.name]: undefined }));
    daemon = await near.policyd.start(["--encapsulation=auto"]);
    await until(
      () => !routesOf(4).includes("10.244.3."),
      () => routesOf(4),
    );
    assert.match(routesOf(4), /10\.244\.2\.0/);
    on.put("nodes.json", on.nodeList());
    await until(
      () => ours(node) === kept,
      () => ours(node),
    );
  });

  it("D1: the daemon reports another program's route to the same pods, and leaves it and that program's other routes unchanged", async () => {
    const { node } = on.nodes[0].wired;
    const kept = ours(node);
    const foreign = "10.244.77.0/24 via 192.0.2.254 dev uplink proto static metric 50";
    const other = "10.244.78.0/24 via 192.0.2.254 dev uplink proto 107";
    for (const route of [foreign, other]) node.exec("ip", `route add ${route}`.split(" "));
    on.put("more.json", JSON.stringify(nodeObject("node7", [parseAddress("192.0.2.7")], ["10.244.77.0/24"])));
    await untilProblem(daemon, /pods of Node node7: another program's route \(protocol 4\) to 10\.244\.77\.0\/24/);
    on.put("more.json", "");
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem");
    assert.ok(routesOf(4).includes("10.244.77.0/24 via 192.0.2.254 dev uplink proto static metric 50"), routesOf(4));
    assert.ok(routesOf(4).includes("10.244.78.0/24 via 192.0.2.254 dev uplink proto 107"), routesOf(4));
    for (const route of [foreign, other]) node.exec("ip", `route delete ${route}`.split(" "));
    // A daemon that saw the Node before the other route has had a route of its own for a while.
    await until(
      () => ours(node) === kept,
      () => ours(node),
    );
  });

  it("D1: Nodes whose CIDRs overlap or contain a node's address get no route and are reported; other routes stay unchanged", async () => {
    const { node } = on.nodes[0].wired;
    const kept = ours(node);
    const bad = [
      nodeObject("twin1", [parseAddress("192.0.2.51")], ["10.244.51.0/24"]),
      nodeObject("twin2", [parseAddress("192.0.2.52")], ["10.244.51.0/24"]),
      nodeObject("wide", [parseAddress("192.0.2.53")], ["10.240.0.0/12"]),
      nodeObject("taker", [parseAddress("192.0.2.54")], ["198.18.3.0/28", "127.0.0.0/8"]),
    ];
    on.put("bad.json", listOf(bad));
    for (const name of ["twin1", "twin2", "wide", "taker"])
      await untilProblem(daemon, new RegExp(`Node ${name}: pod CIDR`));
    assert.equal(ours(node), kept);
    on.put("bad.json", "");
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem");
  });

  it("POD-21: the daemon reports and keeps a link of the tunnel's name that is not a VXLAN device, and corrects a VXLAN device", async () => {
    const { node } = on.nodes[0].wired;
    const kept = ours(node);
    await daemon.pause();
    node.exec("ip", ["link", "delete", TUNNEL.name]);
    node.exec("ip", ["link", "add", TUNNEL.name, "type", "bridge"]);
    daemon.child.kill("SIGCONT");
    await untilProblem(
      daemon,
      /drawbridge\.vx: there is a link of this name that is not a VXLAN device: rename or delete it/,
    );
    assert.equal(node.link(TUNNEL.name).kind, "bridge");
    await daemon.pause();
    node.exec("ip", ["link", "delete", TUNNEL.name]);
    node.exec("ip", `link add ${TUNNEL.name} type vxlan id 9 dev ${UPLINK} dstport 8472`.split(" "));
    daemon.child.kill("SIGCONT");
    await until(
      () => ours(node) === kept,
      () => `${ours(node)}\nexpected\n${kept}`,
    );
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem");
  });

  it("D9: the daemons of all nodes, including its own, follow a node that gets another address", async () => {
    const [, , far] = on.nodes;
    const { node } = far.wired;
    const address = parseAddress("198.18.3.33");
    node.exec("ip", ["address", "delete", "198.18.3.3/24", "dev", UPLINK]);
    node.exec("ip", ["address", "add", "198.18.3.33/24", "dev", UPLINK]);
    node.exec("ip", ["route", "add", "default", "via", "198.18.3.254"]);
    const status = {
      addresses: [address, far.addresses[6]].map((one) => ({ type: "InternalIP", address: formatAddress(one) })),
    };
    on.put("nodes.json", on.nodeList({ [far.name]: { status } }));
    const mac = tunnelMac(address);
    await until(
      () => node.links().some((link) => link.name === TUNNEL.name && link.mac === mac),
      () => ours(node),
    );
    await on.untilPodsReachPods();
  });

  it("D11: with IPv6 off a node has only IPv4 routes and no problem with routes, and with IPv6 on again its IPv6 routes are back", async () => {
    const [near, , far] = on.nodes;
    const { node } = near.wired;
    for (const which of ["all", "default"]) node.writeSysctl(`net/ipv6/conf/${which}/disable_ipv6`, "1");
    await until(
      () => !/fd00:|fe80:/.test(ours(node)),
      () => ours(node),
    );
    node.exec("ip", ["link", "delete", TUNNEL.name]);
    await near.policyd.kill();
    daemon = await near.policyd.start(["--encapsulation=auto"]);
    await on.untilReached([flow(near.pod, far.podAddresses[4]), flow(far.pod, near.podAddresses[4])]);
    // The node's pods have IPv6 addresses, so the daemon reports that IPv6 is off, but nothing about routes.
    const isOfNode = (problem: string): boolean => problem.startsWith("ipv6: net.ipv6.conf.all.disable_ipv6 = 1");
    // A device that was made just now has no settings of ours yet.
    await daemon.statusWhen(({ problems }) => problems.every(isOfNode), "no problem with routes");
    assert.doesNotMatch(ours(node), /fd00:|fe80:/);
    node.writeSysctl("net/ipv6/conf/all/disable_ipv6", "0");
    node.exec("ip", ["address", "add", "2001:db8:2::1/64", "dev", UPLINK, "nodad"]);
    await until(
      () => ours(node).includes("fd00:244:3::/64"),
      () => ours(node),
    );
    await daemon.statusWhen(({ problemCount }) => problemCount === 0, "no problem");
  });
});

describe("routes of nodes with only IPv6 addresses", function () {
  this.timeout(300_000);

  it("POD-03 POD-21: pods of nodes with only IPv6 addresses reach each other, also by IPv4", async function () {
    requireKernel(this);
    requireLongForm(this, "three more nodes take too long");
    using on = new RouteLab("routes-v6", { nodeFamilies: [6] });
    await on.start();
    await on.untilPodsReachPods();
    await on.exchange(on.nodes[0], on.nodes[2]);
    const { node } = on.nodes[0].wired;
    assert.match(node.exec("bridge", ["fdb", "show", "dev", TUNNEL.name]), /dst 2001:db8:103::3 /);
    assert.equal(node.link(TUNNEL.name).mtu, 1430);
  });
});

import assert from "node:assert/strict";
import { cidrContains, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { judgeNodes } from "../../../../objects/nodes/judged_nodes.ts";
import type { JudgedNodes } from "../../../../objects/nodes/node_verdict.ts";
import { desiredRoutes } from "../../../../policyd/routes/desired.ts";
import type { DesiredRoute } from "../../../../policyd/routes/peer_routes.ts";
import type { KernelState } from "../../../../policyd/routes/route_kernel/kernel_state.ts";
import { atOnce } from "../../../../policyd/lib/sliced_work.ts";
import { clusterNodes } from "../../../../policyd/routes/surroundings.ts";
import type { Encapsulation } from "../../../../policyd/configuration/schema.ts";
import { foreignRoute, machine, node, UPLINK } from "../../../support/routes/machine.ts";

const BRIDGE = 3;
const OTHER = 8;
const NODES = [
  node("a", ["192.0.2.1", "2001:db8::1"], ["10.244.1.0/24", "fd00:244:1::/64"]),
  node("b", ["192.0.2.2", "2001:db8::2"], ["10.244.2.0/24", "fd00:244:2::/64"]),
];

/** Another program's route, as an administrator or another add-on makes it. */
function route(destination: string, link: number, gateway?: string, protocol = 80, priority = 0) {
  return { ...foreignRoute(destination, link, gateway), protocol, priority };
}

function desiredOf(judged: JudgedNodes, encapsulation: Encapsulation, state: KernelState) {
  return atOnce(desiredRoutes(clusterNodes(judged, "a"), [], { encapsulation, bridge: "cni0" }, state));
}

function problems(
  routes: readonly ReturnType<typeof route>[],
  discarding: readonly ReturnType<typeof route>[] = [],
  encapsulation: Encapsulation = "auto",
): readonly string[] {
  const plain = machine();
  const state = { ...plain, routes: [...plain.routes, ...routes], discarding };
  const judged = judgeNodes(NODES, { nodeName: "a", serviceCidrs: [] });
  const found = desiredOf(judged, encapsulation, state);
  return "unknown" in found ? assert.fail(found.unknown) : found.problems;
}

describe("policyd/routes/obstacles", () => {
  it("WAY-01: a discarding route inside a pod CIDR of this or another node is a problem, and one around it is not", () => {
    for (const [cidr, whose] of [
      ["10.244.1.0/26", "pods of this node"],
      ["fd00:244:1:0:1::/80", "pods of this node"],
      ["10.244.2.64/26", "pods of Node b"],
      ["fd00:244:2::7/128", "pods of Node b"],
    ] as const) {
      const [problem = "", ...others] = problems([], [route(cidr, 1)]);
      assert.ok(problem.startsWith(`pod-networks: ${whose}: pod CIDR `), problem);
      assert.ok(problem.includes(`${cidr} (protocol 80, discards packets)`), problem);
      assert.deepEqual(others, []);
    }
    assert.deepEqual(
      problems([], [route("10.244.0.0/16", 1), route("10.96.0.0/26", 1), route("fd00:244::/32", 1)]),
      [],
    );
  });

  it("WAY-01: a route by another device inside a pod CIDR is a problem, and routes of pods and of the way itself are not", () => {
    const inOwn = problems([route("10.244.1.64/26", OTHER), route("10.244.1.9/32", OTHER, "192.0.2.9")]);
    assert.equal(inOwn.length, 1);
    assert.match(inOwn[0] ?? "", /10\.244\.1\.9\/32 .*, 10\.244\.1\.64\/26 \(protocol 80, by link 8\)/);
    // The bridge's own routes, a former plugin's bridge, and a pod that the former plugin has wired without a bridge.
    const kernels = { ...foreignRoute("10.244.1.0/24", OTHER) };
    const fine = [
      route("10.244.1.0/25", BRIDGE),
      kernels,
      route("10.244.1.7/32", OTHER),
      route("10.244.1.8/32", BRIDGE),
    ];
    assert.deepEqual(problems(fine), []);
    assert.match(problems([route("10.244.2.64/26", OTHER)])[0] ?? "", /pods of Node b: .*by link 8/);
    assert.deepEqual(problems([route("10.244.2.64/26", UPLINK, "192.0.2.2")]), []);
  });

  it("WAY-01: many routes inside one pod CIDR are one problem that names three of them", () => {
    const many = [1, 2, 3, 4, 5].map((number) => route(`10.244.2.${number}/32`, OTHER));
    const [problem = "", ...others] = problems(many);
    assert.match(problem, /10\.244\.2\.1\/32 .*10\.244\.2\.3\/32 .* and 2 more; delete/);
    assert.deepEqual(others, []);
  });

  it("WAY-01: with encapsulation never and a router between, routes to parts of a pod CIDR are fine, and discards are not", () => {
    const far = [node("a", ["192.0.2.1"], ["10.244.1.0/24"]), node("c", ["198.51.100.3"], ["10.244.3.0/24"])];
    const reported = (discarding: readonly ReturnType<typeof route>[]): readonly string[] => {
      const plain = machine();
      const bgp = route("10.244.3.64/26", UPLINK, "192.0.2.254", 12);
      const judged = judgeNodes(far, { nodeName: "a", serviceCidrs: [] });
      const state = { ...plain, routes: [...plain.routes, bgp], discarding };
      const found = desiredOf(judged, "never", state);
      return "unknown" in found ? assert.fail(found.unknown) : found.problems;
    };
    assert.deepEqual(reported([]), []);
    assert.equal(reported([route("10.244.3.0/26", 1)]).length, 1);
  });
});

describe("policyd/routes and links without a link layer", () => {
  /** The devices of the routes to the pods of node b, which is on the uplink's network. */
  function devices(encapsulation: Encapsulation, hasLinkLayer: boolean): readonly (number | string)[] {
    const plain = machine();
    const links = plain.links.map((link) => (link.index === UPLINK ? { ...link, hasLinkLayer } : link));
    const judged = judgeNodes(NODES, { nodeName: "a", serviceCidrs: [] });
    const found = desiredOf(judged, encapsulation, { ...plain, links });
    if ("unknown" in found) assert.fail(found.unknown);
    const isOfPods = ({ destination }: DesiredRoute): boolean =>
      cidrContains(parseCidr("10.244.0.0/16"), destination.address) ||
      cidrContains(parseCidr("fd00:244::/32"), destination.address);
    return [...found.routes.values()].filter(isOfPods).map(({ device }) => device);
  }

  it("WAY-02: auto uses the tunnel over a link without a link layer, and Ethernet directly; always and never do not change", () => {
    assert.deepEqual(devices("auto", false), ["tunnel", "tunnel"]);
    assert.deepEqual(devices("auto", true), [UPLINK, UPLINK]);
    assert.deepEqual(devices("never", false), [UPLINK, UPLINK]);
    assert.deepEqual(devices("always", true), ["tunnel", "tunnel"]);
  });
});

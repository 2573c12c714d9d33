import assert from "node:assert/strict";
import fc from "fast-check";
import { parseAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../../kernel/ip/mac.ts";
import type { Route } from "../../../../kernel/route/route.ts";
import { judgeNodes } from "../../../../objects/nodes/judged_nodes.ts";
import type { Node } from "../../../../objects/model.ts";
import { type Desired, desiredRoutes } from "../../../../policyd/routes/desired.ts";
import { entrySteps, removalSteps, tunnelProblems, tunnelSteps } from "../../../../policyd/routes/difference.ts";
import { FakeRouteKernel } from "../../../support/routes/fake_route_kernel.ts";
import type { KernelState, Step } from "../../../../policyd/routes/route_kernel/kernel_state.ts";
import { isOurs } from "../../../../policyd/routes/own_routes.ts";
import { clusterNodes } from "../../../../policyd/routes/surroundings.ts";
import { atOnce } from "../../../../policyd/lib/sliced_work.ts";
import { foreignRoute, machine, node, UPLINK } from "../../../support/routes/machine.ts";

const OWN = node("a", ["192.0.2.1", "2001:db8::1"], ["10.244.1.0/24"]);

/** One of a few nodes, near or far, of one or both families. */
const someNode = fc
  .record({ number: fc.integer({ min: 2, max: 6 }), isNear: fc.boolean(), has6: fc.boolean(), isDual: fc.boolean() })
  .map(({ number, isNear, has6, isDual }) =>
    node(
      `n${number}`,
      [
        isNear ? `192.0.2.${number}` : `198.51.100.${number}`,
        ...(has6 ? [`2001:db8:${isNear ? 0 : 9}::${number}`] : []),
      ],
      [`10.244.${number}.0/24`, ...(isDual ? [`fd00:244:${number}::/64`] : [])],
    ),
  );

const someCluster = fc.record({
  nodes: fc.uniqueArray(someNode, { maxLength: 5, selector: ({ name }) => name }),
  services: fc.subarray(["10.96.0.0/16", "fd00:96::/112"]),
  encapsulation: fc.constantFrom("auto", "always", "never"),
  hasIpv6: fc.boolean(),
} as const);

type Cluster = typeof someCluster extends fc.Arbitrary<infer T> ? T : never;

function desiredOf({ nodes, services, encapsulation }: Cluster, state: KernelState): Desired {
  const all: readonly Node[] = [OWN, ...nodes];
  const options = { encapsulation, bridge: "drawbridge0" };
  const known = clusterNodes(judgeNodes(all, { nodeName: "a" }), "a");
  const ranges = services.map((text) => parseCidr(text));
  const found = atOnce(desiredRoutes(known, ranges, options, state));
  if ("unknown" in found) assert.fail(found.unknown);
  return found;
}

/** Applies the differences like the reconciler, without its clock. */
function converge(
  kernel: FakeRouteKernel,
  cluster: Cluster,
): { readonly desired: Desired; readonly steps: readonly Step[] } {
  const before = kernel.steps.length;
  const desired = desiredOf(cluster, kernel.state);
  for (let round = 0; round < 3; round++) assert.deepEqual(kernel.apply(tunnelSteps(desired.tunnel, kernel.state)), []);
  assert.deepEqual(kernel.apply(atOnce(entrySteps(desired, kernel.state))), []);
  assert.deepEqual(kernel.apply(removalSteps(desired, kernel.state)), []);
  return { desired, steps: kernel.steps.slice(before) };
}

/** One kind of damage to the kernel's state. */
const harm: fc.Arbitrary<(state: KernelState) => KernelState> = fc.oneof(
  fc.nat(20).map((place) => (state: KernelState) => ({
    ...state,
    routes: state.routes.filter((route, index) => !(isOurs(route) && index % 21 === place)),
  })),
  fc.constant((state: KernelState) => ({ ...state, rules: [] })),
  fc.constant((state: KernelState) => ({
    ...state,
    tunnel: state.tunnel && { ...state.tunnel, forwarding: [], checksumOffload: true, up: false },
    routes: state.routes.filter(({ outputInterface }) => outputInterface !== state.tunnel?.index),
  })),
  fc.constant((state: KernelState) => ({ ...state, tunnel: state.tunnel && { ...state.tunnel, neighbours: [] } })),
  fc.constant((state: KernelState) => ({
    ...state,
    tunnel: state.tunnel?.parameters && {
      ...state.tunnel,
      parameters: { ...state.tunnel.parameters, learning: true, vni: 1 },
    },
  })),
  fc.constant((state: KernelState): KernelState => {
    const ours: Route = {
      ...foreignRoute("10.244.99.0/24", UPLINK, "192.0.2.9"),
      protocol: 107,
      priority: 107,
    };
    return { ...state, routes: [...state.routes, ours, { ...ours, gateway: parseAddress("192.0.2.8") }] };
  }),
);

describe("policyd/routes/difference", () => {
  it("POD-21: from any state one application reaches the desired state, and a second one has nothing to do", () => {
    fc.assert(
      fc.property(
        fc.array(fc.tuple(someCluster, fc.array(harm, { maxLength: 3 })), { minLength: 1, maxLength: 4 }),
        (history) => {
          const foreign = machine().routes;
          const kernel = new FakeRouteKernel(machine());
          for (const [cluster, harms] of history) {
            kernel.state = { ...kernel.state, hasIpv6: cluster.hasIpv6 };
            const { desired } = converge(kernel, cluster);
            const { tunnel, routes } = kernel.state;
            assert.equal(tunnel !== undefined, desired.tunnel !== undefined);
            assert.deepEqual(
              routes
                .filter(isOurs)
                .map(({ table, destination, gateway, outputInterface, source }) =>
                  [table, destination && formatCidr(destination), gateway, outputInterface, source].join(),
                )
                .toSorted(),
              [...desired.routes.values()]
                .map(({ table, destination, gateway, device, source }) =>
                  [
                    table,
                    formatCidr(destination),
                    gateway,
                    device === "tunnel" ? tunnel?.index : device,
                    source,
                  ].join(),
                )
                .toSorted(),
            );
            const remotes = (tunnel?.forwarding ?? []).map(({ mac, remote }) => [mac, remote] as const);
            assert.deepEqual(new Map(remotes), desired.forwarding);
            assert.deepEqual(new Set(tunnel?.neighbours), new Set(desired.neighbours.values()));
            assert.deepEqual(new Set(kernel.state.rules), new Set(desired.rules));
            assert.deepEqual(
              routes.filter((route) => !isOurs(route)),
              foreign,
              "foreign routes stay",
            );
            assert.deepEqual(converge(kernel, cluster).steps, []);
            for (const damage of harms) kernel.state = damage(kernel.state);
          }
        },
      ),
      { numRuns: 300 },
    );
  });

  it("D8: entries that a route needs are added before it and removed after it", () => {
    const kernel = new FakeRouteKernel(machine());
    const far = node("c", ["198.51.100.3"], ["10.244.3.0/24"]);
    const cluster = { nodes: [far], services: [], encapsulation: "auto", hasIpv6: true } as const;
    const types = (steps: readonly Step[]): readonly string[] => steps.map(({ type }) => type);
    assert.deepEqual(types(converge(kernel, { ...cluster, nodes: [far], services: [] }).steps), [
      "create-tunnel",
      "switch-checksum-offload-off",
      "change-tunnel",
      "add-tunnel-address",
      "add-tunnel-address",
      "add-tunnel-address",
      "set-forwarding",
      "set-neighbour",
      "add-route",
      "add-route",
      "add-rule",
    ]);
    assert.deepEqual(types(converge(kernel, { ...cluster, nodes: [], services: [] }).steps), [
      "delete-route",
      "delete-route",
      "delete-rule",
      "delete-neighbour",
      "delete-forwarding",
      "delete-tunnel",
    ]);
  });

  it("D1: no route is added beside another program's route to the same destination, and a stale one of ours is removed", () => {
    const near = node("b", ["192.0.2.2"], ["10.244.2.0/24"]);
    const cluster = { nodes: [near], services: [], encapsulation: "never", hasIpv6: true } as const;
    const taken = machine({ routes: [...machine().routes, foreignRoute("10.244.2.0/24", UPLINK, "192.0.2.77")] });
    const kernel = new FakeRouteKernel(taken);
    assert.deepEqual(converge(kernel, { ...cluster, nodes: [near], services: [] }).steps, []);
    const stale = { ...foreignRoute("10.244.2.0/24", UPLINK, "192.0.2.9"), protocol: 107, priority: 107 };
    kernel.state = { ...taken, routes: [...taken.routes, stale] };
    assert.deepEqual(
      converge(kernel, { ...cluster, nodes: [near], services: [] }).steps.map(({ type }) => type),
      ["delete-route"],
    );
  });

  it("D10: a route with another MTU is replaced", () => {
    const near = node("b", ["192.0.2.2", "2001:db8::2"], ["fd00:244:2::/64"]);
    const cluster = { nodes: [near], services: [], encapsulation: "auto", hasIpv6: true } as const;
    const kernel = new FakeRouteKernel(machine());
    converge(kernel, { ...cluster, nodes: [near], services: [] });
    const routes = kernel.state.routes.map((route) => (isOurs(route) ? { ...route, mtu: undefined } : route));
    kernel.state = { ...kernel.state, routes };
    assert.deepEqual(
      converge(kernel, { ...cluster, nodes: [near], services: [] }).steps.map(({ type }) => type),
      ["replace-route"],
    );
  });

  it("POD-21: routes of our protocol with another metric are the plugin's and stay, as does any default route", () => {
    const plugins = { ...foreignRoute("0.0.0.0/0", UPLINK, "192.0.2.254"), protocol: 107 };
    const ours = { ...foreignRoute("0.0.0.0/0", UPLINK, "192.0.2.254"), protocol: 107, priority: 107 };
    const others = { ...foreignRoute("10.0.0.0/8", UPLINK, "192.0.2.254"), protocol: 107 };
    const kernel = new FakeRouteKernel(machine({ routes: [...machine().routes, plugins, ours, others] }));
    const cluster = { nodes: [], services: [], encapsulation: "auto", hasIpv6: true } as const;
    assert.deepEqual(converge(kernel, { ...cluster, nodes: [], services: [] }).steps, []);
  });

  it("POD-21: a foreign link with the tunnel's name stays and is reported, and a tunnel with other parameters is replaced", () => {
    const far = node("c", ["198.51.100.3"], ["10.244.3.0/24"]);
    const cluster: Cluster = { nodes: [far], services: [], encapsulation: "auto", hasIpv6: true };
    const kernel = new FakeRouteKernel(machine());
    converge(kernel, cluster);
    const { tunnel } = kernel.state;
    assert.ok(tunnel?.parameters !== undefined);
    kernel.state = { ...kernel.state, tunnel: { ...tunnel, parameters: undefined } };
    const desired = desiredOf(cluster, kernel.state);
    assert.deepEqual(tunnelSteps(desired.tunnel, kernel.state), []);
    assert.match(tunnelProblems(desired.tunnel, kernel.state).join(), /a link of this name that is not a VXLAN device/);
    assert.deepEqual(removalSteps({ ...desired, tunnel: undefined }, kernel.state), []);
    for (const change of [
      { vni: 1 },
      { port: 8472 },
      { learning: true },
      { hasMore: true },
      { local: parseAddress("192.0.2.9") },
    ]) {
      const state: KernelState = {
        ...kernel.state,
        tunnel: { ...tunnel, parameters: { ...tunnel.parameters, ...change } },
      };
      const types = tunnelSteps(desired.tunnel, state).map(({ type }) => type);
      assert.deepEqual(
        types,
        ["delete-tunnel", "create-tunnel"],
        JSON.stringify(change, (_, value: unknown) => String(value)),
      );
    }
    const mac = parseMac("02:00:00:00:00:99");
    const changed = { ...kernel.state, tunnel: { ...tunnel, mac, mtu: 1400 } };
    assert.deepEqual(
      tunnelSteps(desired.tunnel, changed).map(({ type }) => type),
      ["change-tunnel"],
    );
  });

  it("POD-21: checksum offload that stays on and a strict source check are reported with the way out", () => {
    const kernel = new FakeRouteKernel(machine());
    kernel.isStubborn = true;
    const far = node("c", ["198.51.100.3"], ["10.244.3.0/24"]);
    const { desired } = converge(kernel, { nodes: [far], services: [], encapsulation: "auto", hasIpv6: true });
    const problems = tunnelProblems(desired.tunnel, kernel.state).join("\n");
    assert.match(problems, /checksum offload stays on.*`ethtool -K drawbridge\.vx tx-checksum-ip-generic off`/);
    const unknown = { tunnel: kernel.state.tunnel && { ...kernel.state.tunnel, checksumOffload: undefined } };
    assert.match(
      tunnelProblems(desired.tunnel, unknown).join(),
      /cannot be read: the kernel needs CONFIG_ETHTOOL_NETLINK/,
    );
    assert.match(problems, /rp_filter.*net\.ipv4\.conf\.all\.rp_filter to 0 or 2/);
  });
});

import assert from "node:assert/strict";
import { formatAddress, parseAddress } from "../../../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { ROUTE_PROTOCOL } from "../../../../kernel/route/route.ts";
import { judgeNodes } from "../../../../objects/nodes/judged_nodes.ts";
import { problemsIn } from "../../../../objects/nodes/node_verdict.ts";
import type { Node } from "../../../../objects/model.ts";
import { type Desired, desiredRoutes } from "../../../../policyd/routes/desired.ts";
import { atOnce } from "../../../../policyd/lib/sliced_work.ts";
import type { KernelState } from "../../../../policyd/routes/route_kernel/kernel_state.ts";
import { PODS_TABLE } from "../../../../policyd/routes/own_routes.ts";
import type { DesiredRoute } from "../../../../policyd/routes/peer_routes.ts";
import { clusterNodes, podMtu, type RouteOptions } from "../../../../policyd/routes/surroundings.ts";
import { tunnelMac } from "../../../../policyd/routes/tunnel_mac.ts";
import { foreignRoute, machine, node, UPLINK } from "../../../support/routes/machine.ts";

const OWN = node("a", ["192.0.2.1", "2001:db8::1"], ["10.244.1.0/24", "fd00:244:1::/64"]);
const NEAR = node("b", ["192.0.2.2", "2001:db8::2"], ["10.244.2.0/24", "fd00:244:2::/64"]);
const FAR = node("c", ["198.51.100.3", "2001:db8:9::3"], ["10.244.3.0/24", "fd00:244:3::/64"]);

/** The index of a link of another program. */
const OTHER = 9;

interface Case {
  readonly nodes?: readonly Node[];
  readonly services?: readonly string[];
  readonly options?: Partial<RouteOptions>;
  readonly state?: KernelState;
}

function tried({
  nodes = [OWN, NEAR, FAR],
  services = [],
  options = {},
  state = machine(),
}: Case): Desired | { readonly unknown: string } {
  const all = { encapsulation: "auto", bridge: "drawbridge0", ...options } as const;
  const serviceCidrs = services.map((text) => parseCidr(text));
  const judged = judgeNodes(nodes, { nodeName: "a", serviceCidrs });
  const found = atOnce(desiredRoutes(clusterNodes(judged, "a"), serviceCidrs, all, state));
  return "unknown" in found ? found : { ...found, problems: [...problemsIn(judged), ...found.problems] };
}

function desired(one: Case): Desired {
  const found = tried(one);
  if ("unknown" in found) assert.fail(found.unknown);
  return found;
}

function allRoutes(one: Case): readonly DesiredRoute[] {
  return [...desired(one).routes.values()];
}

/** The routes in the notation of `ip route`. */
function routesOf(one: Case, table = 254): readonly string[] {
  return allRoutes(one)
    .filter((route) => route.table === table)
    .map(({ destination, gateway, device, source }) => {
      const way = gateway === undefined ? "" : ` via ${formatAddress(gateway)}`;
      return `${formatCidr(destination)}${way} dev ${device}${source === undefined ? "" : ` src ${formatAddress(source)}`}`;
    });
}

const FAR_MAC = tunnelMac(FAR.addresses[0]?.address ?? assert.fail());

describe("policyd/routes/desired", () => {
  it("D10: a direct route of IPv6 has the pods' MTU where that is smaller than the network's", () => {
    const mtus = (encapsulation: RouteOptions["encapsulation"]): readonly (number | undefined)[] =>
      allRoutes({ options: { encapsulation } })
        .filter(({ table }) => table === 254)
        .map(({ mtu }) => mtu);
    assert.deepEqual(mtus("auto"), [undefined, 1450, undefined, undefined], "IPv4 and the tunnel need none");
    assert.deepEqual(mtus("never"), [undefined, undefined]);
  });

  it("POD-21: of two links with the network of another node the route takes the one that the kernel takes", () => {
    const { links, routes, ...state } = machine();
    const second = { index: 4, name: "second", mtu: 1500, up: true, hasLinkLayer: true };
    const wayOf = (...networks: readonly KernelState["routes"][number][]): string | undefined =>
      routesOf({
        nodes: [OWN, NEAR],
        state: { ...state, links: [...links, second], routes: [...networks, ...routes.slice(1)] },
      })[0];
    assert.match(
      wayOf(foreignRoute("192.0.2.0/24", UPLINK), foreignRoute("192.0.2.0/24", 4)) ?? "",
      new RegExp(`dev ${UPLINK} `),
      "of equal metrics the first",
    );
    assert.match(wayOf(foreignRoute("192.0.2.0/24", 4), foreignRoute("192.0.2.0/24", UPLINK)) ?? "", /dev 4 /);
  });

  it("POD-21: with auto the next hop is the node itself on the own link and the tunnel elsewhere, in both families", () => {
    const [, , third, fourth, ...more] = routesOf({});
    assert.deepEqual(routesOf({}).slice(0, 2), [
      `10.244.2.0/24 via 192.0.2.2 dev ${UPLINK} src 192.0.2.1`,
      `fd00:244:2::/64 via 2001:db8::2 dev ${UPLINK} src 2001:db8::1`,
    ]);
    assert.equal(third, "10.244.3.0/24 via 198.51.100.3 dev tunnel src 192.0.2.1");
    assert.match(fourth ?? "", /^fd00:244:3::\/64 via fe80::[0-9a-f:]+ dev tunnel src 2001:db8::1$/);
    assert.deepEqual(more, []);
    const { forwarding, neighbours, tunnel, rules, problems } = desired({});
    assert.deepEqual([...forwarding], [[FAR_MAC, FAR.addresses[0]?.address]]);
    assert.deepEqual(
      [...neighbours.values()].map(({ mac }) => mac),
      [FAR_MAC, FAR_MAC],
      "one for each family",
    );
    assert.equal(tunnel?.mtu, 1450);
    assert.equal(tunnel.mac, tunnelMac(tunnel.local));
    // Masqueraded packets leave with the node's own addresses.
    assert.deepEqual(tunnel.addresses.slice(1).map(formatCidr), ["192.0.2.1/32", "2001:db8::1/128"]);
    assert.deepEqual(
      rules.map(({ family, inputInterface }) => [family, inputInterface]),
      [
        [4, "drawbridge0"],
        [6, "drawbridge0"],
      ],
    );
    assert.deepEqual(problems, []);
  });

  it("ENDS-06: a node is on the link if no router is on the way to its address, for any encapsulation", () => {
    for (const encapsulation of ["auto", "always", "never"] as const) {
      const { onLink } = desired({ options: { encapsulation } });
      assert.deepEqual([...onLink].map(formatAddress), ["192.0.2.2", "2001:db8::2"], encapsulation);
    }
  });

  it("D1: an address of a link that only this node has is not used, unless no link leads to other nodes", () => {
    const docker = [...machine().addresses].slice(0, 1).map((one) => ({
      ...one,
      index: 3,
      address: parseCidr("172.17.0.1/16"),
    }));
    const addresses = [...docker, ...machine().addresses];
    const several = { outputInterface: undefined, hasOtherNextHop: true, nextHopLinks: [UPLINK, 9] };
    const hops = [...machine().routes.slice(0, 2), { ...foreignRoute("0.0.0.0/0", UPLINK), ...several }];
    const own = node("a", ["172.17.0.1", "192.0.2.1", "2001:db8::1"], ["10.244.1.0/24"]);
    for (const [nodes, local, { routes }] of [
      [[own, NEAR], "192.0.2.1", machine()],
      [[own, FAR], "192.0.2.1", machine()],
      [[own, FAR], "192.0.2.1", { routes: hops }],
      [[node("a", ["172.17.0.1"], ["10.244.1.0/24"]), FAR], "172.17.0.1", machine()],
    ] as const) {
      const { tunnel, problems } = desired({
        nodes,
        options: { encapsulation: "always" },
        state: machine({ addresses, routes }),
      });
      assert.equal(tunnel && formatAddress(tunnel.local), local);
      assert.equal(problems.filter((one) => one.includes("only this node has")).length, local === "192.0.2.1" ? 1 : 0);
    }
  });

  it("WAY-05: a node whose packets to other nodes leave by a link in a VRF reports it, and one with another link in a VRF does not", () => {
    for (const [inVrf, expected] of [
      ["uplink", [/^Node a: packets between nodes leave by uplink in the VRF blue, .* nomaster/]],
      ["cni0", []],
    ] as const) {
      const links = machine().links.map((link) => (link.name === inVrf ? { ...link, vrf: "blue" } : link));
      const { problems } = desired({ state: machine({ links }) });
      assert.equal(problems.length, expected.length, problems.join());
      for (const [index, pattern] of expected.entries()) assert.match(problems[index] ?? "", pattern);
    }
  });

  it("POD-04: pods reach addresses of remote nodes through the tunnel, by a table that the node itself does not use", () => {
    const found = routesOf({}, PODS_TABLE);
    assert.equal(found[0], "198.51.100.3/32 via 198.51.100.3 dev tunnel");
    assert.match(found[1] ?? "", /^2001:db8:9::3\/128 via fe80:/);
    assert.equal(found.length, 2);
  });

  it("POD-21: with always every node is reached through the tunnel, with never none", () => {
    assert.ok(routesOf({ options: { encapsulation: "always" } }).every((route) => route.includes("dev tunnel")));
    const never = { options: { encapsulation: "never" } } as const;
    assert.equal(routesOf(never).length, 2);
    assert.deepEqual([desired(never).tunnel, desired(never).problems], [undefined, []]);
  });

  it("D10: the tunnel's MTU is the underlay's minus the overhead of its family, and the pods have the same", () => {
    const links = machine().links.map((link) => (link.index === UPLINK ? { ...link, mtu: 9000 } : link));
    assert.equal(desired({ state: machine({ links }) }).tunnel?.mtu, 8950);
    const v6 = [node("a", ["2001:db8::1"], []), node("c", ["2001:db8:9::3"], ["fd00:244:3::/64"])];
    assert.equal(desired({ nodes: v6, state: machine({ links }) }).tunnel?.mtu, 8930);
    assert.deepEqual(
      [podMtu("auto", 1500, 4), podMtu("always", 1500, 6), podMtu("never", 1500, 4)],
      [1450, 1430, 1500],
    );
    const small = machine({ links: machine().links.map((link) => ({ ...link, mtu: 1300 })) });
    assert.match(
      desired({ state: small }).problems.join(),
      /drawbridge\.vx: MTU 1250 is too small for IPv6.*an MTU of 1330 or more/,
    );
  });

  it("D11: without IPv6 on the node there are only IPv4 routes and no problems", () => {
    const one = { state: machine({ hasIpv6: false }), services: ["fd00:96::/112"] };
    const found = desired(one);
    assert.ok(found.routes.size > 0 && allRoutes(one).every(({ family }) => family === 4));
    assert.deepEqual([found.tunnel?.addresses.map(formatCidr), found.problems], [["192.0.2.1/32"], []]);
  });

  it("POD-21: a node without an address of a family is reached through the tunnel in that family", () => {
    const half = node("b", ["192.0.2.2"], ["10.244.2.0/24", "fd00:244:2::/64"]);
    const found = routesOf({ nodes: [OWN, half] });
    assert.equal(found[0], `10.244.2.0/24 via 192.0.2.2 dev ${UPLINK} src 192.0.2.1`);
    assert.match(found[1] ?? "", /^fd00:244:2::\/64 via fe80:.* dev tunnel/);
    const never = { nodes: [OWN, half], options: { encapsulation: "never" } } as const;
    assert.match(
      desired(never).problems.join(),
      /Node b: no InternalIP of IPv6; no route to its pods fd00:244:2::\/64/,
    );
  });

  it("POD-21: nodes whose first addresses are of different families cannot tunnel, which is reported", () => {
    const other = node("c", ["2001:db8:9::3", "198.51.100.3"], ["10.244.3.0/24"]);
    const { problems, routes } = desired({ nodes: [OWN, NEAR, other] });
    assert.match(problems.join(), /Node c: its first InternalIP 2001:db8:9::3 is not of the family of 192\.0\.2\.1/);
    assert.equal(routes.size, 2, "the other routes stay");
  });

  it("D9: routes are unknown while this node's address is on no interface or its Node is missing", () => {
    const gone = machine({ addresses: machine().addresses.slice(1) });
    assert.deepEqual(tried({ state: gone }), {
      unknown: "InternalIP 192.0.2.1 of this node is on no interface that is up",
    });
    assert.deepEqual(tried({ nodes: [NEAR] }), { unknown: "no Node object has this node's name" });
    assert.ok("routes" in tried({ nodes: [] }), "without other Nodes there is nothing to wait for");
  });

  for (const [title, gateway, isKnown] of [
    ["to another node's pods", "192.0.2.2", false],
    ["to Services", undefined, true],
  ] as const) {
    it(`POD-21: with a route of ours ${title} and no Node, routes are ${isKnown ? "known" : "unknown"}`, () => {
      const route = { ...foreignRoute("10.244.2.0/24", UPLINK, gateway), protocol: ROUTE_PROTOCOL, priority: 107 };
      const state = machine({ routes: [...machine().routes, route] });
      assert.equal("routes" in tried({ nodes: [], state }), isKnown);
      const away = { ...state, addresses: state.addresses.slice(1) };
      assert.equal("routes" in tried({ nodes: [OWN], state: away }), isKnown, "the own address is on no interface");
    });
  }

  it("D1: another program's route to a pod CIDR is reported unless it leads to the same node", () => {
    const other = foreignRoute("10.244.2.0/24", UPLINK, "192.0.2.77");
    const found = desired({ state: machine({ routes: [...machine().routes, other] }) });
    assert.equal(found.routes.get("254 10.244.2.0/24")?.isTaken, true);
    assert.match(
      found.problems.join(),
      /pods of Node b: another program's route \(protocol 2\) to 10\.244\.2\.0\/24 is in the way/,
    );
    const ofBridge = foreignRoute("10.244.2.0/24", 3);
    const options = { encapsulation: "auto", bridge: "cni0" } as const;
    const left = desired({ options, state: machine({ routes: [...machine().routes, ofBridge] }) });
    assert.match(
      left.problems.join(),
      /pods of this node still have addresses of its earlier pod CIDR 10\.244\.2\.0\/24/,
    );
    const same = foreignRoute("10.244.2.0/24", UPLINK, "192.0.2.2");
    assert.deepEqual(desired({ state: machine({ routes: [...machine().routes, same] }) }).problems, []);
  });

  it("SVC-19: Service ranges get a route in a family that has none for them", () => {
    const services = ["10.96.0.0/16", "fd00:96::/112"];
    const alone = { nodes: [OWN], services };
    assert.deepEqual(routesOf(alone), [`fd00:96::/112 dev ${UPLINK} src 2001:db8::1`], "IPv4 has a default route");
    const without = machine().routes.slice(0, 2);
    assert.deepEqual(routesOf({ ...alone, state: machine({ routes: without }) }), [
      `10.96.0.0/16 dev ${UPLINK} src 192.0.2.1`,
      `fd00:96::/112 dev ${UPLINK} src 2001:db8::1`,
    ]);
  });

  it("SVC-19: a Service range whose packets another program's route would discard gets a route of ours, or the other route is reported", () => {
    const discards = (destination: string, priority = 0) => ({ ...foreignRoute(destination, 0), priority });
    for (const [discarding, other, isAdded, problem = /^$/] of [
      [discards("10.0.0.0/8"), undefined, true],
      [discards("0.0.0.0/0"), undefined, true],
      [discards("0.0.0.0/0", 1024), undefined, false],
      [discards("10.96.0.0/12"), foreignRoute("10.96.0.0/15", OTHER), false],
      [discards("10.97.0.0/16"), foreignRoute("10.96.0.0/17", OTHER), false],
      [discards("10.96.128.0/17", 1024), undefined, false, /^pod-networks: .*10\.96\.128\.0\/17 .*discards packets/],
      [discards("10.96.0.0/16"), undefined, true, /discards what is sent to 10\.96\.0\.0\/16;/],
      [discards("10.96.0.0/16", 1024), undefined, true],
    ] as const) {
      const routes = [...machine().routes, ...(other === undefined ? [] : [other])];
      const state = machine({ routes: routes.map((route) => ({ ...route, priority: 100 })), discarding: [discarding] });
      const found = desired({ nodes: [OWN], services: ["10.96.0.0/16"], state });
      const title = `${formatCidr(discarding.destination ?? parseCidr("0.0.0.0/0"))} ${discarding.priority}`;
      assert.equal(found.routes.size, isAdded ? 1 : 0, title);
      assert.match(found.problems.join(), problem, title);
    }
  });

  it("SVC-19: without an own Node a Service range is routed to any interface with an address, and reported if there is none", () => {
    const services = ["fd00:96::/112"];
    assert.deepEqual(routesOf({ nodes: [], services }), [`fd00:96::/112 dev ${UPLINK}`]);
    const found = desired({ nodes: [], services, state: machine({ addresses: [] }) });
    assert.equal(found.routes.size, 0);
    assert.match(found.problems.join(), /Service range fd00:96::\/112: no interface to route it to is up/);
  });

  it("SVC-19: a Service range that holds a node's address gets no route and is reported", () => {
    const found = desired({ nodes: [OWN, NEAR], services: ["2001:db8::/112"] });
    assert.ok(![...found.routes.values()].some(({ gateway }) => gateway === undefined));
    assert.match(found.problems.join(), /Service range 2001:db8::\/112: has an address of Node a/);
  });

  it("D1: a Node with an address in a Service range takes no route from the range, and the address is not used", () => {
    const thief = node("b", ["192.0.2.2", "fd00:96::5"], ["10.244.2.0/24", "fd00:244:2::/64"]);
    const found = desired({ nodes: [OWN, thief], services: ["fd00:96::/112"] });
    assert.ok(found.routes.has("254 fd00:96::/112"));
    assert.ok(![...found.routes.values()].some(({ gateway }) => gateway === parseAddress("fd00:96::5")));
    assert.match(found.problems.join(), /Node b: InternalIP fd00:96::5 is in fd00:96::\/112, a range of Services/);
  });

  it("D1: an address that two Nodes give is in no entry, route or table", () => {
    const thief = node("b", ["198.51.100.2", "198.51.100.3", "2001:db8:9::3"], ["10.244.2.0/24", "fd00:244:2::/64"]);
    const victim = parseAddress("2001:db8:9::3");
    const { routes, forwarding, neighbours } = desired({ nodes: [OWN, thief, FAR] });
    assert.deepEqual([...forwarding.values()].map(formatAddress), ["198.51.100.2"]);
    const reached = [...neighbours.values()].map(({ address }) => address);
    assert.ok(![victim, parseAddress("198.51.100.3")].some((address) => reached.includes(address)));
    const hosts = [...routes.keys()].filter((key) => key.startsWith(`${PODS_TABLE} `));
    assert.deepEqual(hosts, [`${PODS_TABLE} 198.51.100.2/32`]);
  });

  for (const [cidr, network] of [
    ["192.0.2.128/25", "192.0.2.0/24"],
    ["192.0.0.0/16", "192.0.2.0/24"],
    ["172.17.0.0/16", "172.17.0.0/24"],
  ] as const) {
    it(`D1: a pod CIDR ${cidr} takes nothing from ${network}, a network of this node`, () => {
      // This node has another address first, so that only its routes show the network.
      const own = node("a", ["203.0.113.1"], ["10.244.1.0/24"]);
      const addresses = machine().addresses.map((one) => ({ ...one, address: parseCidr("203.0.113.1/32") }));
      const routes = [
        ...machine().routes,
        foreignRoute("172.17.0.0/24", 3),
        foreignRoute("10.0.0.0/8", UPLINK, "192.0.2.9"),
      ];
      const one = {
        nodes: [own, node("b", ["198.51.100.2"], [cidr, "10.244.2.0/24"])],
        state: machine({ addresses, routes }),
      };
      assert.deepEqual(
        routesOf(one).map((route) => route.split(" ")[0]),
        ["10.244.2.0/24"],
        "a route through a gateway is not to a network of this node",
      );
      assert.match(
        desired(one).problems.join(),
        new RegExp(`Node b: pod CIDR ${cidr} overlaps ${network}, a network this`),
      );
    });
  }

  it("D10: an address that is also on loopback does not give the device, and one that is only there has the link by which its packets leave", () => {
    const loopback = machine().addresses.map((one) => ({
      ...one,
      index: 1,
      address: parseCidr(formatCidr(one.address)),
    }));
    const both = machine({ addresses: [...loopback, ...machine().addresses] });
    assert.equal(desired({ state: both }).surroundings.podMtu, 1450);
    assert.equal(desired({ state: both }).tunnel?.mtu, 1450);
    const alone = machine({ addresses: loopback, outward: [UPLINK] });
    assert.equal(desired({ state: alone }).tunnel?.mtu, 1450);
    assert.ok(
      routesOf({ state: alone, services: ["fd00:96::/112"] }).includes(`fd00:96::/112 dev ${UPLINK} src 2001:db8::1`),
    );
    assert.deepEqual(tried({ state: machine({ addresses: loopback, routes: [] }) }), {
      unknown: "InternalIP 192.0.2.1 of this node is on no interface that is up",
    });
  });
});

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { LAB_BRIDGE } from "../../lab/cni.ts";
import { UPLINK } from "../../lab/topology.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { requireKernel } from "../../support/privilege.ts";
import { flow, RouteLab, untilProblem } from "../../support/routes/route_lab.ts";
import { until } from "../../support/until.ts";

describe("a node in surroundings that are not simple", function () {
  this.timeout(300_000);
  let on: RouteLab;
  let daemons: readonly DaemonProcess[];

  before(async function () {
    requireKernel(this);
    on = new RouteLab("surroundings");
    daemons = await on.start();
    await on.untilPodsReachPods();
  });
  after(() => on?.[Symbol.dispose]());

  /** Returns the status of a Node with further InternalIPs before its own. */
  const naming = (number: 0 | 1 | 2, ...first: readonly string[]) => {
    const { addresses } = on.nodes[number];
    const all = [...first, ...FAMILIES.map((family) => formatAddress(addresses[family]))];
    return { status: { addresses: all.map((address) => ({ type: "InternalIP", address })) } };
  };
  /** Waits until pods reach pods and no daemon has a problem. */
  const untilWell = async (): Promise<void> => {
    on.put("nodes.json", on.nodeList());
    await on.untilPodsReachPods();
    await Promise.all(daemons.map((one) => one.statusWhen(({ problemCount }) => problemCount === 0, "no problem")));
  };

  for (const [what, first] of [
    ["bridge", (number: number) => [`10.244.${number}.1`, `fd00:244:${number}::1`]],
    ["docker0", () => ["172.17.0.1"]],
    ["VIP that has moved", () => ["192.0.2.100", "2001:db8:2::100"]],
  ] as const) {
    it(`D1: pods reach pods where Nodes name the address of a ${what} first, and the tunnel and routes keep the nodes' own`, async () => {
      const before = on.describe();
      on.put("nodes.json", on.nodeList({ node1: naming(0, ...first(1)), node3: naming(2, ...first(3)) }));
      const status = await daemons[0]?.statusWhen(({ problemCount }) => problemCount >= 2, "the address is reported");
      const chosen = `192.0.2.1 by ${UPLINK}, the first InternalIP of Node node1 that other nodes can use: `;
      const why = `Node node1: InternalIP ${first(1)[0]} is `;
      assert.ok(status?.nodeAddress?.startsWith(`${chosen}${why}`), status?.nodeAddress);
      await on.untilPodsReachPods();
      await until(
        () => on.describe() === before,
        () => on.describe(),
      );
      await untilWell();
    });
  }

  const OWN = "2001:db8:2::2";
  const onUplink = (verb: string, address: string, ...words: readonly string[]) => [
    "address",
    verb,
    `${address}/64`,
    "dev",
    UPLINK,
    ...words,
  ];
  for (const [what, flag, change, undo, report] of [
    [
      "prefers its temporary ones (RFC 8981)",
      "temporary",
      onUplink("add", "2001:db8:2::22", "mngtmpaddr", "nodad"),
      onUplink("del", "2001:db8:2::22"),
      undefined,
    ],
    [
      "has deprecated the one that its Node names",
      "deprecated",
      onUplink("change", OWN, "preferred_lft", "0"),
      onUplink("change", OWN, "preferred_lft", "forever"),
      undefined,
    ],
    [
      "shares the one that its Node names with another host",
      "dadfailed",
      onUplink("add", OWN),
      onUplink("add", OWN, "nodad"),
      "is on uplink and on another host, too",
    ],
    [
      "has lost the one that its Node names",
      "",
      onUplink("del", OWN),
      onUplink("add", OWN, "nodad"),
      "is on no interface that is up",
    ],
  ] as const) {
    it(`D1: packets from a node to pods have the address that its Node names where a link of IPv6 ${what}, ${report === undefined ? "and nothing is reported" : "once that is over, and until then it is reported"}`, async () => {
      const [{ wired: near, podAddresses }, { wired }] = on.nodes;
      const daemon = daemons[1] ?? assert.fail();
      const ip = (args: readonly string[]) => wired.node.exec("ip", args);
      wired.node.writeSysctl(`net/ipv6/conf/${UPLINK}/use_tempaddr`, "2");
      wired.node.writeSysctl(`net/ipv6/conf/${UPLINK}/accept_dad`, "1");
      if (flag === "dadfailed") {
        ip(onUplink("del", OWN));
        on.router.exec("ip", ["address", "add", `${OWN}/64`, "dev", "lan", "nodad"]);
      }
      ip(change);
      const shown = (): string => ip(["-6", "address", "show", "dev", UPLINK]);
      await until(() => shown().includes(flag), shown);
      if (report !== undefined) {
        await untilProblem(daemon, new RegExp(`^routes: Node node2: InternalIP ${OWN} ${report}`));
        if (flag === "dadfailed") {
          on.router.exec("ip", ["address", "del", `${OWN}/64`, "dev", "lan"]);
          ip(onUplink("del", OWN));
          near.node.exec("ip", ["neighbour", "flush", "dev", UPLINK]);
        }
        ip(undo);
      }
      await untilWell();
      const found = await on.untilReached([flow(wired.node, podAddresses[6])]);
      const sources = found.map(({ seenSource }) => seenSource && formatAddress(seenSource));
      if (report === undefined) ip(undo);
      assert.deepEqual(sources, [OWN]);
      await untilWell();
    });
  }

  const GATEWAYS = ["198.18.3.254", "198.18.3.253"];
  const hops = (): string[] => GATEWAYS.flatMap((via) => ["nexthop", "via", via, "dev", UPLINK, "onlink"]);
  for (const [what, link, routes] of [
    ["loopback, with two default gateways", "lo", () => [["route", "replace", "default", ...hops()]]],
    [
      "a link without a link layer, with two default gateways",
      "tun9",
      () => [["route", "replace", "default", ...hops()]],
    ],
    [
      "loopback, with a nexthop object",
      "lo",
      () => [
        ["nexthop", "replace", "id", "9", "via", GATEWAYS[0] ?? "", "dev", UPLINK, "onlink"],
        ["route", "replace", "default", "nhid", "9"],
      ],
    ],
    [
      "loopback, with a group of nexthop objects",
      "lo",
      () => [
        ...GATEWAYS.map((via, i) => ["nexthop", "replace", "id", `${7 + i}`, "via", via, "dev", UPLINK, "onlink"]),
        ["nexthop", "replace", "id", "10", "group", "7/8"],
        ["route", "replace", "default", "nhid", "10"],
      ],
    ],
    [
      "loopback, with a default gateway of IPv6",
      "lo",
      () => [["-4", "route", "replace", "default", "via", "inet6", "2001:db8:103::254", "dev", UPLINK]],
    ],
    [
      "loopback, with two default gateways of which one is by a link that is down",
      "lo",
      () => [
        ["tuntap", "add", "dev", "hop9", "mode", "tap"],
        ["link", "set", "hop9", "mtu", "1300", "up"],
        ["route", "replace", "default", "nexthop", "dev", "hop9", ...hops().slice(0, 6)],
        ["link", "set", "hop9", "down"],
      ],
    ],
    [
      "an Ethernet link that does not lead to other nodes",
      "tap9",
      () => [["route", "replace", "default", "via", GATEWAYS[0] ?? "", "dev", UPLINK, "onlink"]],
    ],
    [
      "loopback, with routes of a BGP daemon to each node and no default route",
      "lo",
      () => [
        ["route", "replace", "198.18.3.0/24", "dev", UPLINK],
        ...[1, 2].map((host) => ["route", "replace", `192.0.2.${host}`, ...hops()]),
      ],
    ],
  ] as const) {
    it(`WAY-04: a node whose address is on ${what} has its tunnel, and its pods the MTU of the link that leads to the nodes`, async () => {
      const { node } = on.nodes[2].wired;
      const ip = (...args: readonly string[]) => node.exec("ip", [...args]);
      const hasMtu = (mtu: number) => () => ip("link", "show", TUNNEL.name).includes(`mtu ${mtu} `);
      if (link !== "lo") {
        ip("tuntap", "add", "dev", link, "mode", link.slice(0, 3));
        ip("link", "set", link, "up");
      }
      on.router.exec("ip", ["address", "replace", `${GATEWAYS[1]}/24`, "dev", "to-node3"]);
      ip("address", "add", "198.18.3.3/32", "dev", link);
      ip("address", "del", "198.18.3.3/24", "dev", UPLINK);
      for (const args of routes()) ip(...args);
      ip("link", "set", UPLINK, "mtu", "1400");
      await until(hasMtu(1350), () => `${on.describe()}\n${JSON.stringify(daemons[2]?.status())}`);
      await on.untilPodsReachPods();
      ip("link", "set", UPLINK, "mtu", "1500");
      ip("address", "add", "198.18.3.3/24", "dev", UPLINK);
      ip("address", "del", "198.18.3.3/32", "dev", link);
      ip("route", "flush", "root", "192.0.2.0/24");
      ip("route", "replace", "default", "via", GATEWAYS[0] ?? "");
      await until(hasMtu(1450), () => on.describe());
      await untilWell();
    });
  }

  for (const [what, rule, route, report] of [
    [
      "from the node's address",
      ["from", "192.0.2.2"],
      ["default", "via", "192.0.2.254"],
      /the node's packets to its pods leave by uplink/,
    ],
    [
      "from the bridge",
      ["iif", LAB_BRIDGE],
      ["10.244.3.0/24", "via", "192.0.2.254"],
      /packets of pods to pods of Node node3 leave by uplink/,
    ],
    [
      "of every packet, as of a mesh VPN",
      [],
      ["10.244.0.0/16", "dev", UPLINK],
      /packets of pods of Node node1 to pods here leave by uplink/,
    ],
    [
      "from the uplink",
      ["iif", UPLINK],
      ["fd00:244:2::/64", "via", "2001:db8:2::254"],
      /packets of pods of Node node1 to pods here leave by uplink/,
    ],
    [
      "of packets with our mark",
      ["fwmark", "0x10000000/0x10000000"],
      ["default", "via", "192.0.2.254"],
      /packets of pods to pods of Node node3 with mark 0x10000000 leave by uplink .* mark 0x10000000\)/,
    ],
    [
      "from other nodes' pods to a table that discards",
      ["from", "10.244.1.0/24"],
      ["blackhole", "10.244.2.0/24"],
      /packets of pods of Node node1 to pods here are not sent/,
    ],
    [
      "from pods to a table without a way, as a VRF's",
      ["from", "fd00:244:2::/64"],
      ["unreachable", "default"],
      /packets of pods to pods of Node node1 are not sent/,
    ],
    [
      "by protocol and port",
      ["ipproto", "udp", "dport", "53"],
      ["10.244.0.0/16", "dev", UPLINK],
      /packets of pods of Node node1 to pods here with ipproto 17 dport 53 leave by uplink .* dport 53\)/,
    ],
    [
      "by type of service",
      ["tos", "0x10"],
      ["fd00:244::/32", "dev", UPLINK],
      /to pods here with tos 0x10 leave by uplink/,
    ],
    [
      "of the tunnel's own packets",
      ["from", "192.0.2.2", "ipproto", "udp", "dport", "4789"],
      ["unreachable", "default"],
      /packets of the tunnel to Node node3 with ipproto 17 dport 4789 are not sent/,
    ],
    [
      "from one pod",
      ["from", "10.244.2.77", "ipproto", "tcp"],
      ["10.244.3.0/24", "dev", UPLINK],
      /packets of pods to pods of Node node3 in part with ipproto 6 leave by uplink .* from 10\.244\.2\.77 iif/,
    ],
    [
      "to a part of other nodes' pods",
      ["to", "fd00:244:3:0:1::/80"],
      ["unreachable", "default"],
      /packets of pods to pods of Node node3 in part are not sent, .* fd00:244:3:0:1::2 from/,
    ],
  ] as const) {
    it(`WAY-05: a rule ${what} that leads pods' packets away is reported while it is there`, async () => {
      const [, { wired }] = on.nodes;
      const family = [...rule, ...route].join().includes("::") ? "-6" : "-4";
      wired.node.exec("ip", [family, "route", "add", ...route, "table", "500"]);
      wired.node.exec("ip", [family, "rule", "add", ...rule, "lookup", "500", "pref", "50"]);
      await untilProblem(daemons[1] ?? assert.fail(), report);
      wired.node.exec("ip", [family, "rule", "del", "pref", "50"]);
      wired.node.exec("ip", [family, "route", "flush", "table", "500"]);
      await untilWell();
    });
  }

  it("WAY-05: a route that comes to a table of a rule, as tailscale's table 52, is reported at once", async () => {
    const { node } = on.nodes[1].wired;
    const daemon = daemons[1] ?? assert.fail();
    // It takes the place of a rule of the kernel, so that their number says nothing.
    node.exec("ip", ["rule", "del", "lookup", "default"]);
    node.exec("ip", ["rule", "add", "lookup", "52", "pref", "5270"]);
    await pause(1000);
    assert.equal(daemon.status().problemCount, 0);
    node.exec("ip", ["route", "add", "10.244.3.0/24", "dev", UPLINK, "table", "52"]);
    const isTold = ({ problems }: { readonly problems: readonly string[] }): boolean =>
      /packets of pods to pods of Node node3 leave by uplink/.test(problems.join());
    await daemon.statusWhen(isTold, "it is reported", 3);
    node.exec("ip", ["route", "flush", "table", "52"]);
    await daemon.statusWhen((status) => !isTold(status), "it is gone", 3);
    node.exec("ip", ["rule", "del", "pref", "5270"]);
    node.exec("ip", ["rule", "add", "lookup", "default", "pref", "32767"]);
    await untilWell();
  });

  it("D14: pods reach pods without a gap while a controller reports Nodes without addresses or in another order", async () => {
    const before = on.describe();
    const [v4, v6] = FAMILIES.map((family) => ({
      type: "InternalIP",
      address: formatAddress(on.nodes[2].addresses[family]),
    }));
    for (const addresses of [[], [v6], [v6, v4]]) {
      on.put("nodes.json", on.nodeList({ node3: { status: { addresses } }, node1: { status: { addresses: [] } } }));
      await Promise.all(daemons.map((one) => one.statusWhen(({ problemCount }) => problemCount >= 2, "reported")));
      const flows = on.nodes.flatMap((from) =>
        on.nodes.flatMap((to) => FAMILIES.map((family) => flow(from.pod, to.podAddresses[family]))),
      );
      const results = await on.prober.run(flows, { timeoutMilliseconds: 2000 });
      assert.deepEqual(results.filter(({ reached }) => !reached).length, 0, on.describe());
      assert.equal(on.describe(), before);
    }
    await untilWell();
  });

  it("STATE-08: a node that gets the pod CIDR which another node had before is reached from there", async () => {
    const [, { wired: here, pod }, { wired: there }] = on.nodes;
    const further = { 4: "10.244.9.1", 6: "fd00:244:9::1" } as const;
    for (const family of FAMILIES) {
      const [own, host] = family === 4 ? [24, 32] : [64, 128];
      const add = (length: number, device: string) => [
        "address",
        "add",
        `${further[family]}/${length}`,
        "dev",
        device,
        ...(family === 6 ? ["nodad"] : []),
      ];
      here.node.exec("ip", add(own, LAB_BRIDGE));
      there.node.exec("ip", add(host, "lo"));
      on.prober.listen("tcp", { namespace: there.node, address: parseAddress(further[family]), port: 8080 });
    }
    const podCIDRs = ["10.244.9.0/24", "fd00:244:9::/64"];
    on.put("nodes.json", on.nodeList({ node3: { spec: { podCIDRs } } }));
    await on.untilReached(FAMILIES.map((family) => flow(pod, parseAddress(further[family]))));
    await untilWell();
  });
});

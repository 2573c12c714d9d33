import assert from "node:assert/strict";
import { type Family, formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import { connect, setBridgeNetfilter, UPLINK } from "../../lab/topology.ts";
import { forgetMtus } from "../../support/ends/query.ts";
import { hasLongForm } from "../../support/long_form.ts";
import { requireKernel } from "../../support/privilege.ts";
import { BULK_PORT, RouteLab } from "../../support/routes/route_lab.ts";
import { serviceManifest } from "../../support/services/manifest.ts";

const SIZES = {
  client: ["pod here", "pod there", "node", "outside"],
  endpoint: ["here", "there"],
  policy: ["Cluster", "Local"],
  way: ["node port", "balancer", "external IP"],
  mtu: [1500, 1300],
  family: FAMILIES,
  encapsulation: ["auto", "always"],
  isBridgeFiltered: [false, true],
} as const;
type Cell = { readonly [K in keyof typeof SIZES]: (typeof SIZES)[K][number] };

/** Returns all cells, or a choice in which each pair of two dimensions' values occurs. */
function cells(): readonly Cell[] {
  const all = Object.entries(SIZES).reduce<readonly object[]>(
    (made, [name, values]) => made.flatMap((cell) => [...values].map((value) => ({ ...cell, [name]: value }))),
    [{}],
  ) as readonly Cell[];
  if (hasLongForm("all cells of clients, endpoints and paths")) return all;
  const pairsOf = (cell: Cell): readonly string[] => {
    const values = Object.entries(cell).map(([name, value]) => `${name} ${value}`);
    return values.flatMap((one, i) => values.slice(i + 1).map((other) => `${one}, ${other}`));
  };
  const missing = new Set(all.flatMap(pairsOf));
  const chosen: Cell[] = [];
  while (missing.size > 0) {
    const newIn = (cell: Cell): number => pairsOf(cell).filter((pair) => missing.has(pair)).length;
    const best = all.reduce((a, b) => (newIn(b) > newIn(a) ? b : a));
    for (const pair of pairsOf(best)) missing.delete(pair);
    chosen.push(best);
  }
  return chosen;
}

/** Cells of which each tells a true error of a router that a node has translated. */
const REPORTED: readonly Partial<Cell>[] = SIZES.way.flatMap((way) =>
  FAMILIES.map((family) => ({ way, family, client: "outside", endpoint: "there", mtu: 1300 }) as const),
);

for (const encapsulation of SIZES.encapsulation) {
  describe(`connections to a node from everywhere, encapsulation ${encapsulation}`, function () {
    this.timeout(600_000);
    let on: RouteLab;
    let outside: LabNamespace;
    let behindNode: LabNamespace;
    let further: LabNamespace;
    const place = (endpoint: Cell["endpoint"], policy: Cell["policy"]): number =>
      SIZES.endpoint.indexOf(endpoint) * 2 + SIZES.policy.indexOf(policy);

    before(async function () {
      requireKernel(this);
      on = new RouteLab(`outside-${encapsulation}`, { args: [`--encapsulation=${encapsulation}`] });
      outside = behind(on.router, "outside", 7);
      behindNode = behind(on.nodes[0].wired.node, "vpn", 8);
      behindNode.exec("ip", ["link", "set", UPLINK, "mtu", "1300"]);
      on.nodes[0].wired.node.exec("ip", ["link", "set", "to-vpn", "mtu", "1300"]);
      on.nodes[0].wired.node.exec("nft", ["-f", "-"], VPN_RULES);
      further = behind(outside, "further", 9);
      for (const [at, link] of [[further, UPLINK] as const, [outside, "to-further"] as const])
        at.exec("ip", ["link", "set", link, "mtu", "1300"]);
      on.router.exec("ip", ["route", "add", "198.18.9.0/24", "via", "198.18.7.2"]);
      on.router.exec("ip", ["route", "add", "2001:db8:9::/64", "via", "2001:db8:7::2"]);
      for (const endpoint of SIZES.endpoint)
        for (const policy of SIZES.policy) {
          const { name: nodeName, podAddresses } = on.nodes[endpoint === "here" ? 0 : 1];
          const at = FAMILIES.map((family) => ({ address: podAddresses[family], nodeName }));
          const number = place(endpoint, policy);
          const ips = (kind: string): readonly string[] => FAMILIES.map((family) => ip(family, kind, number));
          const spec = {
            type: "LoadBalancer",
            externalTrafficPolicy: policy,
            externalIPs: ips("external IP"),
            status: { loadBalancer: { ingress: ips("balancer").map((text) => ({ ip: text })) } },
          };
          const clusterIps = [`10.96.0.${number + 1}`, `fd00:96::${number + 1}`];
          const text = serviceManifest(`bulk${number}`, clusterIps, at, spec, 30_000 + number);
          on.put(`bulk${number}.yaml`, text.replaceAll(`"port":8080`, `"port":${BULK_PORT}`));
          for (const to of [...ips("external IP"), ...ips("balancer")])
            on.router.exec("ip", ["route", "add", to, "via", formatAddress(on.nodes[0].addresses[familyIn(to)])]);
        }
      await on.start();
      await on.untilPodsReachPods();
    });
    after(() => on?.[Symbol.dispose]());

    /**
     * Asserts that all bytes arrive, or that none does. Pods must learn the path's MTU for each connection, because they
     * know only a node's address for many paths. Only a failure describes the nodes: that takes 24 programs.
     */
    const expectBulk = async (client: LabNamespace, to: Endpoint, isExpected = true): Promise<void> => {
      for (const { pod } of on.nodes) forgetMtus(pod);
      if ((await on.reachesInBulk(client, to, isExpected ? undefined : 500)) !== isExpected) assert.fail(on.describe());
    };

    const expectCell = (cell: Cell, client: LabNamespace, isExpected?: boolean): Promise<void> => {
      const { endpoint, policy, way, family, mtu, isBridgeFiltered } = cell;
      outside.exec("ip", ["link", "set", UPLINK, "mtu", String(mtu)]);
      on.router.exec("ip", ["link", "set", "to-outside", "mtu", String(mtu)]);
      for (const { wired } of on.nodes) setBridgeNetfilter(wired.node, isBridgeFiltered);
      const number = place(endpoint, policy);
      const to =
        way === "node port"
          ? { address: on.nodes[0].addresses[family], port: 30_000 + number }
          : { address: parseAddress(ip(family, way, number)), port: 80 };
      return expectBulk(client, to, isExpected);
    };

    for (const cell of cells().filter((one) => one.encapsulation === encapsulation)) {
      const { client, endpoint, policy, way, family, mtu } = cell;
      // A node serves its own pods and itself as with Cluster. Only a node port leads a pod of another node here.
      const isExternal = client === "outside" || (client === "pod there" && way === "node port");
      const isExpected = !(policy === "Local" && endpoint === "there" && isExternal);
      const title = `${client} by ${way} to a pod ${endpoint}, ${policy}, IPv${family}, MTU ${mtu}`;
      it(`LB-22: ${title}, br_netfilter ${cell.isBridgeFiltered}: ${isExpected ? "all bytes arrive" : "dropped"}`, async () => {
        const [here, there] = on.nodes;
        const clients = { "pod here": here.pod, "pod there": there.pod, node: here.wired.node, outside };
        await expectCell(cell, clients[client], isExpected);
      });
    }

    for (const part of REPORTED) {
      it(`ENDS-08: a pod learns the MTU of a client's path by IPv${part.family} that a node on its link masquerades, ${part.way}`, async () => {
        const cell = { policy: "Cluster", encapsulation, isBridgeFiltered: false, ...part } as Cell;
        await expectCell(cell, outside);
      });
    }

    for (const family of FAMILIES) {
      it(`ENDS-08: a pod learns by IPv${family} the MTU of a client's path that a further router reports`, async () => {
        const part = { client: "outside", endpoint: "there", way: "node port", mtu: 1500, family } as const;
        await expectCell({ policy: "Cluster", encapsulation, isBridgeFiltered: false, ...part }, further);
      });

      it(`ENDS-08: a pod learns by IPv${family} the MTU of a path behind a node that is the gateway of a VPN`, async () => {
        const to = { address: on.nodes[1].podAddresses[family], port: BULK_PORT };
        await expectBulk(behindNode, to);
      });

      it(`ENDS-08: a pod learns by IPv${family} the MTU of a path behind a node that leads its client by a node port`, async () => {
        const to = { address: on.nodes[0].addresses[family], port: 30_000 + place("there", "Cluster") };
        await expectBulk(behindNode, to);
      });

      it(`ENDS-08: a pod learns by IPv${family} the MTU of a path on which a node forwards a port by another program's rule`, async () => {
        on.serveBulk(behindNode, parseAddress(family === 4 ? "198.18.8.2" : "2001:db8:8::2"));
        await expectBulk(on.nodes[1].pod, { address: on.nodes[0].addresses[family], port: FORWARDED_PORT });
      });
    }

    /** Returns a new machine behind a router or a node. */
    function behind(router: LabNamespace, name: string, number: number): LabNamespace {
      const machine = on.lab.router(name);
      const at = (end: number) => [parseCidr(`198.18.${number}.${end}/24`), parseCidr(`2001:db8:${number}::${end}/64`)];
      const mac = (end: number) => parseMac(`02:00:00:00:0${number}:0${end}`);
      connect(
        { namespace: router, link: `to-${name}`, mac: mac(1), addresses: at(1) },
        { namespace: machine, link: UPLINK, mac: mac(2), addresses: at(2) },
      );
      // The client offers segments as if the small MTU were further on, so the pods have to learn it by errors.
      for (const gateway of [`198.18.${number}.1`, `2001:db8:${number}::1`])
        machine.exec("ip", ["route", "add", "default", "via", gateway, "advmss", "1440"]);
      return machine;
    }
  });
}

const FORWARDED_PORT = 9000;

/** The rules of another program on the node that is the gateway of a VPN: they masquerade clients and forward a port. */
const VPN_RULES = `table inet vpn {
  chain prerouting {
    type nat hook prerouting priority -110
    tcp dport ${FORWARDED_PORT} dnat ip to 198.18.8.2:${BULK_PORT}
    tcp dport ${FORWARDED_PORT} dnat ip6 to [2001:db8:8::2]:${BULK_PORT}
  }
  chain postrouting {
    type nat hook postrouting priority 90
    iifname "to-vpn" masquerade
  }
}
`;

function ip(family: Family, kind: string, number: number): string {
  const third = kind === "balancer" ? 5 : 6;
  return family === 4 ? `203.0.113.${third * 10 + number}` : `2001:db8:c${third}::${number + 1}`;
}

function familyIn(text: string): Family {
  return text.includes(":") ? 6 : 4;
}

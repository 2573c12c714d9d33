import { type Address, type Family, formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { type Cidr, parseCidr } from "../../../kernel/ip/cidr.ts";
import { macFromBytes } from "../../../kernel/ip/mac.ts";
import { enableForwarding, type Lab, type LabNode } from "../lab.ts";
import type { LabNamespace } from "../namespace.ts";
import { connect, setBridgeNetfilter, UPLINK } from "../topology.ts";

/** The place of a node: on the network that most nodes share, or on its own network behind the router. */
export type NodePlace = "lan" | "behind";

/** A node's namespace with its addresses, not yet part of a cluster. */
export interface Machine {
  readonly node: LabNode;
  readonly place: NodePlace;
  readonly addresses: Readonly<Record<Family, Address>>;
  /** The router's addresses on its network. */
  readonly routers: Readonly<Record<Family, Address>>;
}

const LAN = "lan";

/**
 * The network between the nodes of a cluster: one link that most of them are on, and a router to the others.
 *
 * It does not know pods: the router has no route to them, and counts and drops packets with their addresses, as cloud
 * networks do. Nodes have a default route for IPv4; for IPv6 they have routes only to the nodes' networks.
 */
export class Fabric {
  readonly router: LabNamespace;
  /** The router's addresses on the nodes' link, which every node reaches. */
  readonly addresses: Readonly<Record<Family, Address>> = {
    4: parseAddress("192.0.2.254"),
    6: parseAddress("2001:db8:2::254"),
  };
  readonly serverAddress: string = formatAddress(this.addresses[4]);
  readonly #lab: Lab;
  #machines = 0;

  constructor(lab: Lab) {
    this.#lab = lab;
    this.router = lab.router();
    // Packets between two nodes of the link do not concern the router.
    setBridgeNetfilter(this.router, false);
    this.router.exec("ip", ["link", "add", LAN, "type", "bridge"]);
    this.router.exec("ip", ["address", "add", `${this.serverAddress}/24`, "dev", LAN]);
    this.router.exec("ip", ["address", "add", `${formatAddress(this.addresses[6])}/64`, "dev", LAN, "nodad"]);
    this.router.exec("ip", ["link", "set", LAN, "up"]);
    this.router.exec("nft", ["-f", "-"], NO_PODS);
  }

  /** Adds a machine with an uplink, strict reverse path filters and forwarding. */
  addMachine(name: string, place: NodePlace): Machine {
    const number = ++this.#machines;
    const node = this.#lab.node(name);
    enableForwarding(node);
    // Strict, as in some distributions: it would drop packets out of the tunnel.
    node.writeSysctl("net/ipv4/conf/all/rp_filter", "1");
    const isFar = place === "behind";
    const [v4, v6] = isFar ? [`198.18.${number}`, `2001:db8:${100 + number}:`] : ["192.0.2", "2001:db8:2:"];
    const own = [`${v4}.${number}`, `${v6}:${number}`] as const;
    const routers = [`${v4}.254`, `${v6}:254`] as const;
    const port = `to-${name}`;
    const mac = (end: number) => macFromBytes(Uint8Array.of(0x02, 0, 0, 0, number, end));
    connect(
      { namespace: this.router, link: port, mac: mac(1), addresses: isFar ? networksOf(routers) : [] },
      { namespace: node, link: UPLINK, mac: mac(2), addresses: networksOf(own) },
    );
    if (!isFar) this.router.exec("ip", ["link", "set", port, "master", LAN]);
    node.exec("ip", ["route", "add", "default", "via", routers[0]]);
    node.exec("ip", ["-6", "route", "add", "2001:db8::/32", "via", routers[1]]);
    return { node, place, addresses: byFamily(own), routers: byFamily(routers) };
  }

  /** Returns the number of packets with pods' addresses that the router has dropped. */
  droppedPackets(): number {
    const counters = this.router.exec("nft", ["list", "chain", "inet", "fabric", "forward"]).matchAll(/packets (\d+)/g);
    return [...counters].reduce((sum, [, digits]) => sum + Number(digits), 0);
  }
}

function byFamily([v4, v6]: readonly [string, string]): Readonly<Record<Family, Address>> {
  return { 4: parseAddress(v4), 6: parseAddress(v6) };
}

function networksOf(texts: readonly string[]): readonly Cidr[] {
  return texts.map((text) => parseCidr(`${text}/${text.includes(":") ? 64 : 24}`));
}

const NO_PODS = `table inet fabric {
  chain forward {
    type filter hook forward priority 0
    ip saddr 10.244.0.0/16 counter drop
    ip daddr 10.244.0.0/16 counter drop
    ip6 saddr fd00:244::/32 counter drop
    ip6 daddr fd00:244::/32 counter drop
  }
}
`;

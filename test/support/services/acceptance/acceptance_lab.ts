import { type Address, familyOf, formatAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { formatCidr } from "../../../../kernel/ip/cidr.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import type { NodeName } from "../../policy/lab/place.ts";
import { type OutsideNetworks, PolicyLab } from "../../policy/lab/policy_lab.ts";
import { type NodePlace, NODES, type Place, PLACES, PODS } from "./places.ts";
import { ALL } from "./row.ts";
import { AcceptanceWorld, documentText } from "./world.ts";

const FOREIGN_LISTENER_PORT = 30_001;
const TRANSIT_PORT = 30_003;
const PROGRAM_PORT = 8443;
/**
 * Tables of the router: the one for packets of "C by n2", and the one where packets from nodes to unknown addresses
 * end.
 */
const BY_N2_TABLE = "2";
const NOBODY_TABLE = "9";

/** The networks behind the router, beside the nodes', by the names that their hosts have in the lab. */
const OUTSIDE: Readonly<Record<string, OutsideNetworks>> = {
  c: [
    ["203.0.113.1/29", "2001:db8:c:1::1/64"],
    ["203.0.113.2/29", "2001:db8:c:1::2/64"],
  ],
  d: [
    ["203.0.113.9/29", "2001:db8:c:2::1/64"],
    ["203.0.113.10/29", "2001:db8:c:2::2/64"],
  ],
  "c-by-n2": [
    ["203.0.113.17/29", "2001:db8:c:3::1/64"],
    ["203.0.113.18/29", "2001:db8:c:3::2/64"],
  ],
  far: [
    ["10.244.3.10/29", "fd00:244:3::10/64"],
    ["10.244.3.9/29", "fd00:244:3::9/64"],
  ],
};

const NODE_NAMES: Readonly<Record<NodePlace, NodeName>> = { n1: "node1", n2: "node2" };

/** Returns the name of a place in the lab. */
function nameInLab(place: Place): string {
  if (place === "n1" || place === "n2") return NODE_NAMES[place];
  const name = place.toLowerCase().replaceAll(" ", "-");
  return NODES.some((node) => PODS[node].includes(place)) ? `default/${name}` : name;
}

/** The places that have processes. */
const INHABITED = (Object.keys(PLACES) as Place[]).filter(
  (place) => place !== "localhost" && !place.endsWith(" bridge"),
);

/**
 * The lab of the acceptance table: two nodes with a daemon each, the pods of {@link PODS} attached by the plugin,
 * clients and an endpoint behind the router, rp_filter strict everywhere, all Services of the document at once.
 *
 * Nodes, pods and clients have the lab's addresses; Services and load balancers those of the document. The router sends
 * packets for these to n1, and to n2 if they come from "C by n2".
 */
export class AcceptanceLab {
  readonly lab: PolicyLab;
  readonly places: ReadonlyMap<Place, LabNamespace>;
  /** The document's cluster with this lab's addresses. */
  readonly world: AcceptanceWorld;

  private constructor(lab: PolicyLab) {
    this.lab = lab;
    this.places = new Map(INHABITED.map((place) => [place, lab.place(nameInLab(place)).namespace]));
    this.world = new AcceptanceWorld(this.#renamed());
    // A process listens at a NodePort before there are any rules (row 4.2g).
    for (const address of lab.nodes.node2.addresses) {
      lab.prober.listen("tcp", { namespace: this.namespace("n2"), address, port: FOREIGN_LISTENER_PORT });
    }
    this.#setRoutes();
    this.#setSettings();
    this.#listen();
  }

  /** Makes the lab, and resolves when the rules of all Services are in force on both nodes. */
  static async create({ n1, n2 }: Readonly<Record<NodePlace, boolean>>): Promise<AcceptanceLab> {
    const lab = await PolicyLab.create({
      name: `acceptance-${n1 ? "on" : "off"}`,
      pods: NODES.flatMap((node) => PODS[node].map((place) => ({ key: nameInLab(place), node: NODE_NAMES[node] }))),
      bridgeNetfilter: { node1: n1, node2: n2 },
      outside: OUTSIDE,
    });
    try {
      const made = new AcceptanceLab(lab);
      await lab.apply(made.world.manifests());
      return made;
    } catch (error) {
      lab.close();
      throw error;
    }
  }

  /** Returns the namespace of a place. @throws Error for a place without processes */
  namespace(place: Place): LabNamespace {
    const found = this.places.get(place);
    if (found === undefined) throw new Error(`${place} has no namespace to send from`);
    return found;
  }

  /** Returns the tables of a node as nft prints them. */
  tables(node: NodePlace): string {
    return this.lab.wired(NODE_NAMES[node]).node.ruleset();
  }

  close(): void {
    this.lab.close();
  }

  /** Returns the addresses of a place, IPv4 first. */
  #addressesOf(place: Place): readonly Address[] {
    if (place === "n1 bridge") return this.lab.nodes.node1.gateways;
    if (place === "n2 bridge") return this.lab.nodes.node2.gateways;
    const { addresses } = this.lab.place(nameInLab(place));
    return FAMILIES.map((family) => addresses[family]);
  }

  /** Returns the texts of this lab that replace those of the document. */
  #renamed(): ReadonlyMap<string, string> {
    const places = [...INHABITED, "n1 bridge" as const, "n2 bridge" as const].flatMap((place) =>
      this.#addressesOf(place).flatMap((address) =>
        [["", ""] as const, ["/32", familyOf(address) === 4 ? "/32" : "/128"] as const].map(
          ([inDocument, inLab]) =>
            [
              documentText(`${PLACES[place]}${inDocument}`, familyOf(address)),
              `${formatAddress(address)}${inLab}`,
            ] as const,
        ),
      ),
    );
    const networks = NODES.flatMap((node) =>
      this.lab
        .wired(NODE_NAMES[node])
        .podCidrs.map(
          (cidr) =>
            [documentText(`10.244.${node === "n1" ? 1 : 0}.0/24`, familyOf(cidr.address)), formatCidr(cidr)] as const,
        ),
    );
    const far = [[documentText("10.244.3.0/24", 6), "fd00:244:3::/64"]] as const;
    return new Map([...places, ...networks, ...far, ...Object.entries(NODE_NAMES)]);
  }

  #setRoutes(): void {
    for (const family of FAMILIES) {
      const index = family === 4 ? 0 : 1;
      const { node1, node2, router } = this.lab.nodes;
      const [n1, n2] = [node1, node2].map(({ addresses }) => formatAddress(addresses[index]));
      const virtual = this.world.virtualAddresses(family).map((address) => formatAddress(address));
      const lines = [
        ...virtual.flatMap((address) => [
          `route add ${address} via ${n1}`,
          `route add ${address} via ${n2} table ${BY_N2_TABLE}`,
          `route add blackhole ${address} table ${NOBODY_TABLE}`,
        ]),
        `route add ${n1} via ${n2} table ${BY_N2_TABLE}`,
        `rule add from ${formatAddress(this.world.addressOf("C by n2", family))} lookup ${BY_N2_TABLE} pref 100`,
        `rule add iif to-node1 lookup ${NOBODY_TABLE} pref 90`,
        `rule add iif to-node2 lookup ${NOBODY_TABLE} pref 91`,
      ];
      router.exec("ip", [`-${family}`, "-batch", "-"], lines.join("\n"));
    }
  }

  #setSettings(): void {
    for (const namespace of [this.lab.nodes.router, ...this.places.values()]) {
      namespace.writeSysctl("net/ipv4/conf/all/rp_filter", "1");
    }
    for (const node of NODES) {
      // By default the kernel limits refusals to about a thousand a second in all; here each probe waits for its own.
      this.namespace(node).writeSysctl("net/ipv4/icmp_ratemask", "0");
      // Connection tracking is read after all flows have ended.
      for (const key of ["udp_timeout", "tcp_timeout_time_wait", "tcp_timeout_close"]) {
        this.namespace(node).writeSysctl(`net/netfilter/nf_conntrack_${key}`, "600");
      }
    }
  }

  #listen(): void {
    const ports: readonly (readonly [Place, readonly number[]])[] = [
      ["dns", [53]],
      ...(["redis-1", "redis-2", "redis-3", "ext-1", "ext-2", "np-1", "np-2"] as const).map(
        (place) => [place, [6379]] as const,
      ),
      ["vote-1", [80]],
      ["vote-2", [80]],
      ["far", [6379, 80]],
      ["P1", [TRANSIT_PORT]],
      ["n2", [PROGRAM_PORT]],
    ];
    for (const [place, numbers] of ports) {
      for (const address of this.#addressesOf(place)) {
        for (const port of numbers) {
          for (const protocol of ALL) {
            this.lab.prober.listen(protocol, { namespace: this.namespace(place), address, port });
          }
        }
      }
    }
  }
}

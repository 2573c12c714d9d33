import assert from "node:assert/strict";
import { listAttachments } from "../../../../attachment/attachment.ts";
import { systemFileSystem } from "../../../../ipam/file_system.ts";
import { type Address, familyOf, formatAddress, FAMILIES } from "../../../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { macFromBytes } from "../../../../kernel/ip/mac.ts";
import { newRoute } from "../../../../kernel/route/route.ts";
import { podCall, startPlugin } from "../../../lab/cni.ts";
import { createLab, type Lab } from "../../../lab/lab.ts";
import type { LabNamespace } from "../../../lab/namespace.ts";
import { Prober } from "../../../lab/probe/prober.ts";
import { connect, routeTo, type TwoNodes, twoNodes, type WiredNode } from "../../../lab/topology.ts";
import { PolicydNode } from "../../daemon/policyd_node.ts";
import { type NodePlace, NODES, type Place, PLACES, PODS } from "./places.ts";
import { ALL } from "./row.ts";
import { AcceptanceWorld, documentText } from "./world.ts";
import { valueWhen } from "../../until.ts";

const FOREIGN_LISTENER_PORT = 30_001;
const TRANSIT_PORT = 30_003;
const PROGRAM_PORT = 8443;
const RULES_MILLISECONDS = 300_000;
/** The longest time that the plugin waits for the daemon. */
const PLUGIN_WAIT = "2m";
/**
 * Tables of the router: the one for packets of "C by n2", and the one where packets from nodes to unknown addresses
 * end.
 */
const BY_N2_TABLE = "2";
const NOBODY_TABLE = "9";

/** The networks behind the router, beside the nodes': the router's addresses in them, then the host's. */
const OUTSIDE: Readonly<
  Partial<Record<Place, readonly [router: readonly [string, string], own: readonly [string, string]]>>
> = {
  C: [
    ["203.0.113.1/29", "2001:db8:c:1::1/64"],
    ["203.0.113.2/29", "2001:db8:c:1::2/64"],
  ],
  D: [
    ["203.0.113.9/29", "2001:db8:c:2::1/64"],
    ["203.0.113.10/29", "2001:db8:c:2::2/64"],
  ],
  "C by n2": [
    ["203.0.113.17/29", "2001:db8:c:3::1/64"],
    ["203.0.113.18/29", "2001:db8:c:3::2/64"],
  ],
  far: [
    ["10.244.3.10/29", "fd00:244:3::10/64"],
    ["10.244.3.9/29", "fd00:244:3::9/64"],
  ],
};

/**
 * The lab of the acceptance table: two nodes with a daemon each, the pods of {@link PODS} attached by the plugin,
 * clients and an endpoint behind the router, rp_filter strict everywhere, all Services of the document at once.
 *
 * Nodes, pods and clients have the lab's addresses; Services and load balancers those of the document. The router sends
 * packets for these to n1, and to n2 if they come from "C by n2".
 */
export class AcceptanceLab {
  readonly lab: Lab;
  readonly nodes: TwoNodes;
  readonly prober: Prober;
  readonly places = new Map<Place, LabNamespace>();
  readonly #addresses = new Map<Place, readonly Address[]>();
  readonly #daemons: Readonly<Record<NodePlace, PolicydNode>>;
  #world = new AcceptanceWorld();

  private constructor(lab: Lab, nodes: TwoNodes) {
    this.lab = lab;
    this.nodes = nodes;
    this.prober = new Prober(lab.calls);
    const { node1, node2 } = nodes;
    this.#daemons = { n1: new PolicydNode(lab, node1, PLUGIN_WAIT), n2: new PolicydNode(lab, node2, PLUGIN_WAIT) };
    this.#place("n1", node1.node, node1.addresses);
    this.#place("n2", node2.node, node2.addresses);
    this.#addresses.set("n1 bridge", node1.gateways).set("n2 bridge", node2.gateways);
  }

  /** Makes the lab, and resolves when the rules of all Services are in force on both nodes. */
  static async create({ n1, n2 }: Readonly<Record<NodePlace, boolean>>): Promise<AcceptanceLab> {
    const lab = createLab(`acceptance-${n1 ? "on" : "off"}`);
    let made: AcceptanceLab | undefined;
    try {
      const [first, second] = [n1, n2].map((bridgeNetfilter) => ({ bridgeNetfilter, reversePathFilter: 1 }) as const);
      made = new AcceptanceLab(lab, twoNodes(lab, first, second));
      await made.#fill();
      return made;
    } catch (error) {
      await made?.close();
      lab.destroy();
      throw error;
    }
  }

  /** The document's cluster with this lab's addresses. */
  get world(): AcceptanceWorld {
    return this.#world;
  }

  wired(node: NodePlace): WiredNode {
    return node === "n1" ? this.nodes.node1 : this.nodes.node2;
  }

  /** Returns the namespace of a place. @throws Error for a place without processes */
  namespace(place: Place): LabNamespace {
    const found = this.places.get(place);
    if (found === undefined) throw new Error(`${place} has no namespace to send from`);
    return found;
  }

  /** Gives both daemons the objects of the cluster. */
  apply(manifests: readonly object[]): void {
    const text = manifests.map((object) => `---\n${JSON.stringify(object)}\n`).join("");
    for (const daemon of Object.values(this.#daemons)) daemon.put("world.yaml", text);
  }

  /** Returns the tables of a node as nft prints them. */
  tables(node: NodePlace): string {
    return this.wired(node).node.ruleset();
  }

  async close(): Promise<void> {
    this.prober.close();
    await Promise.all(Object.values(this.#daemons).map((daemon) => daemon.kill()));
    this.lab.destroy();
  }

  async #fill(): Promise<void> {
    for (const [place, networks] of Object.entries(OUTSIDE)) this.#connect(place as Place, networks);
    // A process listens at a NodePort before there are any rules (row 4.2g).
    for (const address of this.nodes.node2.addresses) {
      this.prober.listen("tcp", { namespace: this.namespace("n2"), address, port: FOREIGN_LISTENER_PORT });
    }
    await Promise.all(Object.values(this.#daemons).map((daemon) => daemon.start()));
    await Promise.all(NODES.map((node) => this.#wirePods(node)));
    for (const node of NODES) this.#learnAddresses(node);
    this.#world = new AcceptanceWorld(this.#renamed());
    this.#setRoutes();
    this.#setSettings();
    this.#listen();
    this.apply(this.#world.manifests());
    for (const node of NODES) await this.#untilServed(node);
  }

  #place(place: Place, namespace: LabNamespace, addresses: readonly Address[]): void {
    this.places.set(place, namespace);
    this.#addresses.set(place, addresses);
  }

  #connect(place: Place, [routerSide, ownSide]: readonly [readonly [string, string], readonly [string, string]]): void {
    const name = place.toLowerCase().replaceAll(" ", "-");
    const namespace = this.lab.namespace(name);
    const number = this.places.size;
    const mac = (end: number) => macFromBytes(Uint8Array.of(0x02, 0, 0, 1, number, end));
    const [routerCidrs, own] = [routerSide, ownSide].map((texts) => texts.map((text) => parseCidr(text)));
    assert.ok(routerCidrs !== undefined && own !== undefined);
    connect(
      { namespace: this.nodes.router, link: `to-${name}`, mac: mac(1), addresses: routerCidrs },
      { namespace, link: "uplink", mac: mac(2), addresses: own },
    );
    for (const { address } of routerCidrs) namespace.route.request(newRoute(routeTo(undefined, address)));
    this.#place(
      place,
      namespace,
      own.map(({ address }) => address),
    );
  }

  /**
   * Attaches the pods of a node one after the other: one plugin for each node of each lab is enough for a busy machine.
   */
  async #wirePods(node: NodePlace): Promise<void> {
    const wired = this.wired(node);
    const { overrides } = this.#daemons[node];
    for (const place of PODS[node]) {
      const pod = this.lab.pod(place.toLowerCase());
      const { exitCode, stdout } = await startPlugin(wired.node, podCall("ADD", wired, pod, overrides)).outcome;
      assert.equal(exitCode, 0, stdout);
      this.places.set(place, pod);
    }
  }

  #learnAddresses(node: NodePlace): void {
    const { records } = listAttachments(this.wired(node).node.runDir, "drawbridge", systemFileSystem(this.lab.calls));
    for (const place of PODS[node]) {
      const containerId = `${this.lab.name}-${place.toLowerCase()}`;
      const record = records.find((one) => one.containerId === containerId);
      assert.ok(record !== undefined, `no record of ${containerId}`);
      this.#addresses.set(
        place,
        record.addresses.map(({ address }) => address),
      );
    }
  }

  /** Returns the texts of this lab that replace those of the document. */
  #renamed(): ReadonlyMap<string, string> {
    const places = [...this.#addresses].flatMap(([place, addresses]) =>
      addresses.flatMap((address) =>
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
      this.wired(node).podCidrs.map(
        (cidr) =>
          [documentText(`10.244.${node === "n1" ? 1 : 0}.0/24`, familyOf(cidr.address)), formatCidr(cidr)] as const,
      ),
    );
    const far = [[documentText("10.244.3.0/24", 6), "fd00:244:3::/64"]] as const;
    const names = [
      ["n1", "node1"],
      ["n2", "node2"],
    ] as const;
    return new Map([...places, ...networks, ...far, ...names]);
  }

  #setRoutes(): void {
    for (const family of FAMILIES) {
      const index = family === 4 ? 0 : 1;
      const [n1, n2] = [this.nodes.node1, this.nodes.node2].map(({ addresses }) => formatAddress(addresses[index]));
      const virtual = this.#world.virtualAddresses(family).map((address) => formatAddress(address));
      const lines = [
        ...virtual.flatMap((address) => [
          `route add ${address} via ${n1}`,
          `route add ${address} via ${n2} table ${BY_N2_TABLE}`,
          `route add blackhole ${address} table ${NOBODY_TABLE}`,
        ]),
        `route add ${n1} via ${n2} table ${BY_N2_TABLE}`,
        `rule add from ${formatAddress(this.#world.addressOf("C by n2", family))} lookup ${BY_N2_TABLE} pref 100`,
        `rule add iif to-node1 lookup ${NOBODY_TABLE} pref 90`,
        `rule add iif to-node2 lookup ${NOBODY_TABLE} pref 91`,
      ];
      this.nodes.router.exec("ip", [`-${family}`, "-batch", "-"], lines.join("\n"));
    }
  }

  #setSettings(): void {
    for (const namespace of [this.nodes.router, ...this.places.values()]) {
      namespace.writeSysctl("net/ipv4/conf/all/rp_filter", "1");
    }
    for (const node of NODES) {
      // By default the kernel limits refusals to one a second for each sender, and to about a thousand in all; here
      // each probe waits for its own.
      this.namespace(node).writeSysctl("net/ipv4/icmp_ratemask", "0");
      this.namespace(node).writeSysctl("net/ipv6/icmp/ratelimit", "0");
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
      for (const address of this.#addresses.get(place) ?? []) {
        for (const port of numbers) {
          for (const protocol of ALL) {
            this.prober.listen(protocol, { namespace: this.namespace(place), address, port });
          }
        }
      }
    }
  }

  async #untilServed(node: NodePlace): Promise<void> {
    const missing = (): readonly string[] => {
      const text = this.tables(node);
      return this.#world.servedServices().filter((name) => !new RegExp(`default/${name}[:"]`).test(text));
    };
    const isServed = (names: readonly string[]): boolean => names.length === 0;
    await valueWhen(missing, isServed, (names) => `${node} does not serve ${names.join(", ")}`, RULES_MILLISECONDS);
  }
}

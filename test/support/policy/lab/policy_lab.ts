import assert from "node:assert/strict";
import { listAttachments } from "../../../../attachment/attachment_reader.ts";
import { systemFileSystem } from "../../../../ipam/file_system.ts";
import { type Address, type Family, familyOf, FAMILIES } from "../../../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../../../kernel/ip/cidr.ts";
import { macFromBytes } from "../../../../kernel/ip/mac.ts";
import { newRoute } from "../../../../kernel/route/route.ts";
import { type Configuration, podCall, startPlugin } from "../../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../../lab/lab.ts";
import { Prober } from "../../../lab/probe/prober.ts";
import {
  connect,
  routeTo,
  setBridgeNetfilter,
  type TwoNodes,
  twoNodes,
  UPLINK,
  type WiredNode,
} from "../../../lab/topology.ts";
import { PolicydNode } from "../../daemon/policyd_node.ts";
import { forgetConnections } from "../../daemon/connections.ts";
import { complaintsOf, countKinds, untilInForce, type WatchedDaemon } from "./in_force.ts";
import {
  NODE_NAMES,
  nodeManifest,
  type NodeName,
  type OutsideName,
  type Place,
  type PodPlace,
  uidOf,
} from "./place.ts";
import { configured } from "../../daemon/policyd.ts";
import { listOf } from "../../services/manifest.ts";

const PLUGIN_WAIT = "2m";

/** The state of br_netfilter on the nodes of a lab. */
export type BridgeWay = "as made" | "the other way";

/** The network of a host behind the router: the router's addresses in it, then the host's. */
export type OutsideNetworks = readonly [router: readonly [string, string], own: readonly [string, string]];

/** The networks behind the router, unless a lab has others. */
const OUTSIDE: Readonly<Record<OutsideName, OutsideNetworks>> = {
  outside: [
    ["203.0.113.1/29", "2001:db8:c:1::1/64"],
    ["203.0.113.2/29", "2001:db8:c:1::2/64"],
  ],
  stranger: [
    ["203.0.113.9/29", "2001:db8:c:2::1/64"],
    ["203.0.113.10/29", "2001:db8:c:2::2/64"],
  ],
};

/** The parts of a lab. */
export interface PolicyLabOptions {
  readonly name: string;
  readonly pods: readonly PodPlace[];
  /** Whether bridged frames pass the IP hooks, by node. */
  readonly bridgeNetfilter: Readonly<Record<NodeName, boolean>>;
  /** Fields of the daemons' configuration in addition to those that a lab needs. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  /** The hosts behind the router, by their names. */
  readonly outside?: Readonly<Record<string, OutsideNetworks>>;
  /** Whether each daemon keeps a ledger of flows, in a directory below its own. */
  readonly hasFlowLedger?: boolean;
}

/**
 * Two nodes with a daemon each, pods that the plugin attaches, and two hosts behind the router, in both families.
 * Policies are objects in the daemons' directories.
 */
export class PolicyLab {
  readonly lab: Lab;
  readonly nodes: TwoNodes;
  readonly prober: Prober;
  readonly places = new Map<string, Place>();
  readonly #options: PolicyLabOptions;
  readonly #policyd: Readonly<Record<NodeName, PolicydNode>>;
  #daemons: readonly WatchedDaemon[] = [];
  #isMarked = false;

  private constructor(lab: Lab, options: PolicyLabOptions) {
    this.lab = lab;
    this.#options = options;
    const { node1, node2 } = options.bridgeNetfilter;
    this.nodes = twoNodes(
      lab,
      { bridgeNetfilter: node1, reversePathFilter: 1 },
      { bridgeNetfilter: node2, reversePathFilter: 1 },
    );
    this.#policyd = {
      node1: new PolicydNode(lab, this.nodes.node1, PLUGIN_WAIT),
      node2: new PolicydNode(lab, this.nodes.node2, PLUGIN_WAIT),
    };
    for (const name of NODE_NAMES) {
      const { node, addresses } = this.wired(name);
      this.#place(name, node, addresses);
      // By default the kernel sends a sender one refusal a second; here each probe waits for its own.
      for (const key of ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"]) node.writeSysctl(key, "0");
    }
    for (const [number, [name, networks]] of Object.entries(options.outside ?? OUTSIDE).entries())
      this.#join(name, number, networks);
    this.prober = new Prober(lab);
  }

  /** Makes a lab, and resolves when all pods are attached; it has no objects yet. */
  static async create(options: PolicyLabOptions): Promise<PolicyLab> {
    const lab = createLab(options.name);
    try {
      const made = new PolicyLab(lab, options);
      await made.#fill();
      return made;
    } catch (error) {
      lab.destroy();
      throw error;
    }
  }

  wired(node: NodeName): WiredNode {
    return this.nodes[node];
  }

  /** Returns a place by its name. @throws Error when no place has the name */
  place(name: string): Place {
    const found = this.places.get(name);
    if (found === undefined) throw new Error(`no place of the lab is called ${name}`);
    return found;
  }

  /** Returns the node of a pod. @throws Error when there is no such pod */
  nodeOf(pod: string): NodeName {
    const found = this.#options.pods.find(({ key }) => key === pod);
    if (found === undefined) throw new Error(`no pod of the lab is called ${pod}`);
    return found.node;
  }

  /** Whether two places are known to be on different nodes, or one of them outside of both. */
  areApart(one: string, other: string): boolean {
    const [first, second] = [one, other].map((name) => {
      const pod = this.#options.pods.find(({ key }) => key === name);
      // A pod that came later may be on either node, and an address may lead to either.
      return pod?.node ?? (this.places.has(name) && !name.includes("/") ? name : undefined);
    });
    return first !== undefined && second !== undefined && first !== second;
  }

  /** Returns the directory of a daemon's ledger of flows. */
  flowDirectory(name: NodeName): string {
    return `${this.wired(name).node.runDir}/flows`;
  }

  /** The pods' places in the order in which they were requested. */
  get pods(): readonly Place[] {
    return this.#options.pods.map(({ key }) => this.place(key));
  }

  /** Sets on each node whether bridged frames pass the IP hooks: as the lab was made, or the opposite. */
  bridgeFrames(way: BridgeWay): void {
    for (const name of NODE_NAMES) {
      const isOn = this.#options.bridgeNetfilter[name] === (way === "as made");
      setBridgeNetfilter(this.wired(name).node, isOn);
    }
  }

  /** Runs an action in both ways of {@link bridgeFrames}, one after the other. @returns its result in both */
  async inBothStates<T>(action: (way: BridgeWay) => Promise<T>): Promise<readonly T[]> {
    try {
      this.bridgeFrames("the other way");
      const other = await action("the other way");
      this.bridgeFrames("as made");
      return [other, await action("as made")];
    } finally {
      this.bridgeFrames("as made");
    }
  }

  /**
   * Makes the nodes forget all connections. With each change of policies the daemons read the connections that earlier
   * questions have left, which is most of the processor time of a lab with many questions.
   */
  forgetConnections(): void {
    for (const name of NODE_NAMES) forgetConnections(this.wired(name).node);
  }

  /** Returns the objects of the nodes. */
  nodeManifests(labels: Readonly<Partial<Record<NodeName, Readonly<Record<string, string>>>>> = {}): readonly object[] {
    return NODE_NAMES.map((name) =>
      nodeManifest(this.place(name), this.wired(name).podCidrs.map(formatCidr), labels[name]),
    );
  }

  /** Replaces the objects of both daemons, all at once, and resolves when the new ones are in force. */
  async apply(objects: readonly object[]): Promise<void> {
    this.tell(objects);
    // A namespace that comes and goes distinguishes the objects from earlier ones of the same numbers.
    await Promise.all(this.#daemons.map((daemon) => untilInForce(daemon, countKinds(this.#marked(objects)))));
  }

  /** Gives the objects to the daemons without waiting. */
  tell(objects: readonly object[]): void {
    this.#isMarked = !this.#isMarked;
    const text = listOf(this.#marked(objects));
    for (const name of NODE_NAMES) this.#policyd[name].put("world.json", text);
  }

  /** Returns the plugin's configuration for a connection to a node's daemon. */
  overrides(node: NodeName): Readonly<Record<string, unknown>> {
    return this.#policyd[node].overrides;
  }

  daemon(node: NodeName): WatchedDaemon {
    const found = this.#daemons[NODE_NAMES.indexOf(node)];
    assert.ok(found !== undefined);
    return found;
  }

  /**
   * Makes the plugin attach one more pod, which is a place from then on.
   *
   * @param further keys of the network configuration beside those of a lab
   */
  async wire({ key, node }: PodPlace, further: Configuration = {}): Promise<Place> {
    const wired = this.wired(node);
    const pod = this.lab.pod(key.replace("/", "-"));
    const [namespace = "", name = ""] = key.split("/");
    const names = `K8S_POD_NAMESPACE=${namespace};K8S_POD_NAME=${name};K8S_POD_UID=${uidOf(key)}`;
    const call = podCall("ADD", wired, pod, { ...this.overrides(node), ...further }, { arguments: names });
    const { exitCode, stdout } = await startPlugin(wired.node, call).outcome;
    assert.equal(exitCode, 0, `${stdout}\n${this.daemon(node).process.log()}`);
    return this.#place(key, pod, this.#addressesOf(wired, pod));
  }

  /** Makes the plugin detach a pod. */
  async unwire(key: string, node: NodeName): Promise<void> {
    const { namespace } = this.place(key);
    const wired = this.wired(node);
    const call = podCall("DEL", wired, namespace as LabPod, this.overrides(node));
    const { exitCode, stdout } = await startPlugin(wired.node, call).outcome;
    assert.equal(exitCode, 0, stdout);
    this.places.delete(key);
    this.lab.remove(namespace);
  }

  /**
   * Kills a node's daemon and starts another, with other fields of its configuration where some are given. @param
   * between is called in between
   */
  async restart(name: NodeName, between: () => void, configuration?: PolicyLabOptions["configuration"]): Promise<void> {
    await this.#policyd[name].kill();
    between();
    const daemon = await this.#start(name, configuration);
    this.#daemons = NODE_NAMES.map((one) => (one === name ? daemon : this.daemon(one)));
  }

  /**
   * Ends everything.
   *
   * @throws AssertionError where the kernel has refused a change meanwhile, or the daemon had to repair its tables
   */
  close(): void {
    try {
      assert.deepEqual(
        this.#daemons.flatMap((daemon) => complaintsOf(daemon)),
        [],
      );
    } finally {
      this.lab.destroy();
    }
  }

  async #fill(): Promise<void> {
    this.#daemons = await Promise.all(NODE_NAMES.map((name) => this.#start(name)));
    await Promise.all(
      NODE_NAMES.map(async (node) => {
        // One pod after the other: the two nodes at the same time are enough for a busy machine.
        for (const pod of this.#options.pods) if (pod.node === node) await this.wire(pod);
      }),
    );
  }

  async #start(name: NodeName, changed?: PolicyLabOptions["configuration"]): Promise<WatchedDaemon> {
    // The daemon compares the kernel with the desired state several times in the life of a lab.
    const args = ["--min-sync-period=10ms", "--sync-period=5s"];
    const { configuration = {}, hasFlowLedger = false } = this.#options;
    const flows = hasFlowLedger ? { flowLedger: true, flowLedgerDirectory: this.flowDirectory(name) } : {};
    if (Object.keys({ ...configuration, ...flows }).length > 0) {
      args.push(configured(this.#policyd[name].directory, { ...configuration, ...flows, ...changed }));
    }
    return { process: await this.#policyd[name].start(args), node: this.wired(name).node };
  }

  #marked(objects: readonly object[]): readonly object[] {
    const marker = { apiVersion: "v1", kind: "Namespace", metadata: { name: "marker" } };
    return this.#isMarked ? [...objects, marker] : objects;
  }

  #place(name: string, namespace: Place["namespace"], addresses: readonly Address[]): Place {
    const place = { name, namespace, addresses: byFamily(addresses) };
    this.places.set(name, place);
    return place;
  }

  #join(name: string, number: number, networks: OutsideNetworks): void {
    const namespace = this.lab.namespace(name);
    const mac = (end: number) => macFromBytes(Uint8Array.of(0x02, 0, 0, 1, number, end));
    const [router, own] = networks.map((texts) => texts.map((text) => parseCidr(text)));
    assert.ok(router !== undefined && own !== undefined);
    connect(
      { namespace: this.nodes.router, link: `to-${name}`, mac: mac(1), addresses: router },
      { namespace, link: UPLINK, mac: mac(2), addresses: own },
    );
    for (const { address } of router) namespace.route.request(newRoute(routeTo(undefined, address)));
    const addresses = own.map(({ address }) => address);
    this.#place(name, namespace, addresses);
  }

  #addressesOf(wired: WiredNode, { containerId }: LabPod): readonly Address[] {
    const { records } = listAttachments(wired.node.runDir, "drawbridge", systemFileSystem(this.lab.calls));
    const record = records.find((one) => one.containerId === containerId);
    assert.ok(record !== undefined, `no record of ${containerId}`);
    return record.addresses.map(({ address }) => address);
  }
}

function byFamily(addresses: readonly Address[]): Readonly<Record<Family, Address>> {
  const [v4, v6] = FAMILIES.map((family) => addresses.find((address) => familyOf(address) === family));
  assert.ok(v4 !== undefined && v6 !== undefined);
  return { 4: v4, 6: v6 };
}

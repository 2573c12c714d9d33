import assert from "node:assert/strict";
import {
  type Address,
  type Family,
  familyOf,
  formatAddress,
  parseAddress,
  FAMILIES,
} from "../../../kernel/ip/address.ts";
import { formatCidr, parseCidr } from "../../../kernel/ip/cidr.ts";
import { TUNNEL } from "../../../policyd/routes/tunnel.ts";
import { add } from "../../lab/cni.ts";
import { Fabric, type Machine } from "../../lab/cluster/fabric.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import type { Endpoint } from "../../lab/probe/endpoint.ts";
import { Poller } from "../../lab/probe/poller.ts";
import { type Flow, Prober, type ProbeResult } from "../../lab/probe/prober.ts";
import type { WiredNode } from "../../lab/topology.ts";
import type { DaemonProcess } from "../daemon/policyd.ts";
import { PolicydNode } from "../daemon/policyd_node.ts";
import { bulkServer, exchangeBulk } from "../services/bulk.ts";
import { valueWhen } from "../until.ts";
import { listOf } from "../services/manifest.ts";

const PORT = 8080;
export const BULK_PORT = 8090;
const BULK_BYTES = 60_000;

/** A node with its daemon and its only pod. */
export interface RoutedNode {
  readonly name: string;
  readonly wired: WiredNode;
  readonly policyd: PolicydNode;
  readonly addresses: Readonly<Record<Family, Address>>;
  readonly pod: LabPod;
  readonly podAddresses: Readonly<Record<Family, Address>>;
}

/** Differences of a lab from the usual one. */
export interface RouteLabOptions {
  /** The families in which Nodes have an InternalIP; pods have both. */
  readonly nodeFamilies?: readonly Family[];
  /** Further arguments of every daemon. */
  readonly args?: readonly string[];
}

/**
 * Three nodes of a {@link Fabric}, each with a daemon and a pod: node1 and node2 are on one network and node3 is behind
 * the router.
 */
export class RouteLab implements Disposable {
  readonly lab: Lab;
  readonly router: LabNamespace;
  readonly prober: Prober;
  readonly nodes: readonly [RoutedNode, RoutedNode, RoutedNode];
  readonly #poller: Poller;
  readonly #options: RouteLabOptions;

  constructor(name: string, options: RouteLabOptions = {}) {
    this.#options = options;
    this.lab = createLab(name);
    const fabric = new Fabric(this.lab);
    this.router = fabric.router;
    const [first, second] = [fabric.addMachine("node1", "lan"), fabric.addMachine("node2", "lan")];
    this.nodes = [this.#node(1, first), this.#node(2, second), this.#node(3, fabric.addMachine("node3", "behind"))];
    this.prober = new Prober(this.lab);
    this.#poller = new Poller(this.lab.calls);
    this.lab.atEnd(() => this.#poller.close());
  }

  /** Starts all daemons with all Node objects, and attaches the pods. */
  async start(): Promise<readonly DaemonProcess[]> {
    this.put("nodes.json", this.nodeList());
    const daemons = await Promise.all(
      this.nodes.map(({ policyd }) => policyd.start(["--encapsulation=auto", ...(this.#options.args ?? [])])),
    );
    for (const { wired, policyd, pod, addresses, podAddresses } of this.nodes) {
      const outcome = add(wired, pod, policyd.overrides);
      assert.equal(outcome.exitCode, 0, JSON.stringify(outcome.error));
      for (const family of FAMILIES) {
        this.prober.listen("tcp", { namespace: pod, address: podAddresses[family], port: PORT });
        this.prober.listen("tcp", { namespace: wired.node, address: addresses[family], port: PORT });
        this.serveBulk(pod, podAddresses[family]);
      }
    }
    return daemons;
  }

  /** Returns the Node objects, without those omitted and with other members for some. */
  nodeList(changes: Readonly<Record<string, Readonly<Record<string, unknown>> | undefined>> = {}): string {
    const families = this.#options.nodeFamilies ?? FAMILIES;
    const items = this.nodes.flatMap(({ name, addresses, wired }) =>
      name in changes && changes[name] === undefined
        ? []
        : [
            nodeObject(
              name,
              families.map((family) => addresses[family]),
              wired.podCidrs.map(formatCidr),
              changes[name],
            ),
          ],
    );
    return listOf(items);
  }

  /** Gives all daemons a file of objects. */
  put(file: string, text: string): void {
    for (const { policyd } of this.nodes) policyd.put(file, text);
  }

  /**
   * Probes from every pod to every other pod until all get through, and returns the results with the source addresses
   * that were seen.
   */
  async untilPodsReachPods(): Promise<readonly ProbeResult[]> {
    return this.untilReached(
      this.nodes.flatMap((from) =>
        this.nodes
          .filter((to) => to !== from)
          .flatMap((to) => FAMILIES.map((family) => flow(from.pod, to.podAddresses[family]))),
      ),
    );
  }

  /** Probes until every flow is answered. @throws AssertionError with those that are not */
  async untilReached(flows: readonly Flow[]): Promise<readonly ProbeResult[]> {
    const words = (results: readonly ProbeResult[]): string =>
      results
        .filter(({ reached }) => !reached)
        .map(({ flow: { from, to }, why }) => `${from.name} to ${formatAddress(to.address)}: ${why}`)
        .join("\n");
    return await valueWhen(
      () => this.prober.run(flows, { timeoutMilliseconds: 500 }),
      (results) => results.every(({ reached }) => reached),
      (results) => `${words(results)}\n${this.describe()}`,
    );
  }

  /** Sends much data from one pod to another and back, in packets as large as possible. */
  async exchange(from: RoutedNode, to: RoutedNode): Promise<void> {
    for (const family of FAMILIES) {
      const isAll = await this.reachesInBulk(from.pod, { address: to.podAddresses[family], port: BULK_PORT });
      if (!isAll) assert.fail(`IPv${family} from ${from.name} to ${to.name}\n${this.describe()}`);
    }
  }

  /** Sends back much data that arrives at an address. */
  serveBulk(namespace: LabNamespace, address: Address): void {
    bulkServer(this.#poller, { namespace, address, port: BULK_PORT });
  }

  /** Returns whether much data arrives at an endpoint and comes back in time. */
  async reachesInBulk(from: LabNamespace, to: Endpoint, milliseconds?: number): Promise<boolean> {
    return (await exchangeBulk(this.#poller, from, to, BULK_BYTES, milliseconds)) === BULK_BYTES;
  }

  /** Describes the state of the nodes, for a failure. */
  describe(): string {
    return this.nodes.map(({ name, wired }) => `${name}:\n${ours(wired.node)}`).join("\n");
  }

  #node(number: 1 | 2 | 3, { node, addresses, routers }: Machine): RoutedNode {
    const podCidrs = [parseCidr(`10.244.${number}.0/24`), parseCidr(`fd00:244:${number}::/64`)] as const;
    const wired: WiredNode = {
      node,
      addresses: [addresses[4], addresses[6]],
      routerAddresses: [routers[4], routers[6]],
      podCidrs,
      gateways: [parseAddress(`10.244.${number}.1`), parseAddress(`fd00:244:${number}::1`)],
      mtu: (this.#options.nodeFamilies ?? FAMILIES).includes(4) ? 1450 : 1430,
    };
    return {
      name: node.name,
      wired,
      policyd: new PolicydNode(this.lab, wired),
      addresses,
      pod: this.lab.pod(`pod${number}`),
      podAddresses: { 4: parseAddress(`10.244.${number}.2`), 6: parseAddress(`fd00:244:${number}::2`) },
    };
  }

  [Symbol.dispose](): void {
    this.lab.destroy();
  }
}

/** Returns a probe by TCP. */
export function flow(from: LabNamespace, to: Address): Flow {
  return { protocol: "tcp", from, to: { address: to, port: PORT } };
}

/** Returns a Node as the API has it. */
export function nodeObject(
  name: string,
  addresses: readonly Address[],
  podCIDRs: readonly string[],
  changes: Readonly<Record<string, unknown>> = {},
): Readonly<Record<string, unknown>> {
  const status = { addresses: addresses.map((one) => ({ type: "InternalIP", address: formatAddress(one) })) };
  return { apiVersion: "v1", kind: "Node", metadata: { name }, spec: { podCIDRs }, status, ...changes };
}

/** Returns the Node of a node of a lab, with its pod CIDRs of these families. */
export function nodeOf(
  { node, addresses, podCidrs }: WiredNode,
  families: readonly Family[] = FAMILIES,
): ReturnType<typeof nodeObject> {
  const cidrs = podCidrs.filter(({ address }) => families.includes(familyOf(address)));
  return nodeObject(node.name, addresses, cidrs.map(formatCidr));
}

/** Returns all of our state on a node, as iproute2 prints it. */
export function ours(node: LabNamespace): string {
  const lines = FAMILIES.flatMap((family) => [
    node.exec("ip", [`-${family}`, "route", "show", "table", "all", "proto", "107"]),
    node.exec("ip", [`-${family}`, "rule", "show", "pref", "107"]),
  ]);
  const text = [...lines, ...deviceLines(node)].join("\n");
  // The kernel prints the lines in its own order.
  return text
    .split("\n")
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .toSorted()
    .join("\n");
}

/** Returns the lines of the tunnel's device; none where it does not exist or is deleted meanwhile. */
function deviceLines(node: LabNamespace): readonly string[] {
  try {
    return [
      node.exec("bridge", ["fdb", "show", "dev", TUNNEL.name]),
      node.exec("ip", ["neighbour", "show", "dev", TUNNEL.name, "nud", "permanent"]),
      node.exec("ip", ["-brief", "link", "show", TUNNEL.name]),
      node.exec("ip", ["-brief", "address", "show", TUNNEL.name]),
    ];
  } catch (error) {
    // The device may exist again when it is looked up.
    if (error instanceof Error && /Cannot find device|does not exist/.test(error.message)) return [];
    throw error;
  }
}

/** Waits for a problem in a daemon's status. */
export async function untilProblem(daemon: DaemonProcess, pattern: RegExp): Promise<void> {
  await daemon.statusWhen(({ problems }) => problems.some((problem) => pattern.test(problem)), String(pattern));
}

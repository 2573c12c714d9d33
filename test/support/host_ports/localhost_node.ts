import assert from "node:assert/strict";
import { type Address, familyOf, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { add, type CallOutcome, type Configuration, del } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { type Flow, Prober } from "../../lab/probe/prober.ts";
import { type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { type Way, OPPOSITE_WAYS } from "../guard/ways.ts";
import { PolicydNode } from "../daemon/policyd_node.ts";
import { addressesIn } from "./masquerade.ts";
import { PORT, published } from "./published.ts";

/** Each program that may keep the rules, with one of two opposite ways that packets of pods take. */
export const LOCALHOST_WAYS: readonly (Way & { readonly hasDaemon: boolean; readonly keeper: string })[] =
  OPPOSITE_WAYS.map((way) => {
    const hasDaemon = way.bridgeNetfilter;
    return { ...way, hasDaemon, keeper: hasDaemon ? "with policyd" : "without policyd" };
  });

/** A node whose host ports are used from its own localhost. */
export class LocalhostNode {
  readonly nodes: TwoNodes;
  readonly wired: WiredNode;
  readonly policyd: PolicydNode | undefined;
  readonly prober: Prober;
  readonly #lab: Lab;
  readonly #bypassBridge: boolean;
  #lastPort = 7000;

  constructor(lab: Lab, { bridgeNetfilter, bypassBridge }: Way, hasDaemon: boolean) {
    this.#lab = lab;
    this.#bypassBridge = bypassBridge;
    this.nodes = twoNodes(lab, { bridgeNetfilter });
    this.wired = this.nodes.node1;
    this.policyd = hasDaemon ? new PolicydNode(lab, this.wired) : undefined;
    this.policyd?.put("namespace.yaml", "apiVersion: v1\nkind: Namespace\nmetadata: { name: default }\n");
    this.prober = new Prober(lab);
  }

  async start(): Promise<void> {
    await this.policyd?.start();
  }

  /** Returns a host port that no test has used. */
  newPort(): number {
    return ++this.#lastPort;
  }

  attach(pod: LabPod, wish: Configuration = {}): CallOutcome {
    return add(this.wired, pod, { ...this.#overrides, ...wish });
  }

  detach(pod: LabPod): void {
    const { exitCode, stdout } = del(this.wired, pod, this.#overrides);
    assert.deepEqual([exitCode, stdout], [0, ""]);
  }

  /** Attaches a pod that answers all protocols. */
  serve(name: string, ...mappings: readonly Configuration[]): LabPod {
    const pod = this.#lab.pod(name);
    for (const address of addressesIn(this.attach(pod, published(...mappings)))) {
      for (const protocol of ["tcp", "udp", "sctp"] as const) {
        this.prober.listen(protocol, { namespace: pod, address, port: PORT });
      }
    }
    return pod;
  }

  /** Returns a flow from the node itself. */
  flow(protocol: Flow["protocol"], to: Address, port: number, source?: Address): Flow {
    return {
      protocol,
      from: this.wired.node,
      to: { address: to, port },
      ...(source === undefined ? {} : { source }),
    };
  }

  get #overrides(): Configuration {
    return { bypassBridge: this.#bypassBridge, ...this.policyd?.overrides };
  }
}

/** Returns a pod's own addresses, IPv4 first. */
export function addressesOf(pod: LabPod): readonly [Address, Address] {
  const text = pod.exec("ip", ["-o", "address", "show", "dev", "eth0", "scope", "global"]);
  const found = [...text.matchAll(/inet6? ([^/]+)\//g)].map(([, one = ""]) => parseAddress(one));
  const [v4, v6] = FAMILIES.map((family) => found.find((address) => familyOf(address) === family));
  assert.ok(v4 !== undefined && v6 !== undefined);
  return [v4, v6];
}

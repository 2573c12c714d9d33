import assert from "node:assert/strict";
import { existsSync, readdirSync, rmSync } from "node:fs";
import { ipJson, nodeState, nothingHeld } from "../cni/kernel_state.ts";
import { formatAddress, parseAddress } from "../../../kernel/ip/address.ts";
import { deleteLink } from "../../../kernel/route/link.ts";
import { add, type CallOutcome, type Configuration, del, pluginAs } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { type LabNamespace, requestAll } from "../../lab/namespace.ts";
import { type Flow, Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { FakeIpam } from "./fake_ipam.ts";

/** The fake IPAM plugin's answer until a test sets another one. */
export const BOTH = {
  cniVersion: "1.1.0",
  ips: [
    { address: "10.99.0.5/24", gateway: "10.99.0.1" },
    { address: "fd00:99::5/64", gateway: "fd00:99::1" },
  ],
  routes: [{ dst: "0.0.0.0/0" }, { dst: "::/0" }],
  dns: { nameservers: ["10.99.0.53"], search: ["example.org"] },
};

/** A node whose pods get their addresses from a fake IPAM plugin. */
export class ForeignIpamNode {
  readonly lab: Lab;
  readonly wired: WiredNode;
  readonly ipam: FakeIpam;
  /** The path of the plugin, in the IPAM plugin's directory, which therefore is the CNI_PATH. */
  readonly executable: string;

  constructor(lab: Lab) {
    this.lab = lab;
    this.wired = twoNodes(lab).node1;
    this.ipam = new FakeIpam(`${lab.scratch}/plugins`);
    this.reset();
    this.executable = pluginAs("drawbridge", this.ipam.directory);
  }

  /** Returns to the state before the first pod: the IPAM plugin gives {@link BOTH}, the node has no bridge and no store. */
  reset(): void {
    this.ipam.reset();
    this.ipam.gives(BOTH);
    rmSync(this.wired.node.dataDir, { recursive: true, force: true });
    const bridges = this.wired.node.links().filter(({ kind }) => kind === "bridge");
    requestAll(
      this.wired.node.route,
      bridges.map(({ index }) => deleteLink({ index })),
    );
  }

  /** Makes a pod whose name no other has. */
  pod(name: string): LabPod {
    return this.lab.pod(`${name}${this.lab.namespaces.length}`);
  }

  changes(overrides: Configuration = {}): Configuration {
    return { ipam: { type: this.ipam.type }, ...overrides };
  }

  attach(pod: LabPod, overrides?: Configuration): CallOutcome {
    return add(this.wired, pod, this.changes(overrides), { executable: this.executable });
  }

  detach(pod: LabPod, overrides?: Configuration): CallOutcome {
    return del(this.wired, pod, this.changes(overrides), { executable: this.executable });
  }

  /** Asserts that nothing of a pod is left in the kernel or in a file. */
  assertNothingLeft(pod: LabPod): void {
    assert.deepEqual(nodeState(this.wired.node), nothingHeld);
    assert.deepEqual(
      pod.links().map(({ name }) => name),
      ["lo"],
    );
    for (const place of ["delegations", "delegated"]) {
      const directory = `${this.wired.node.runDir}/${place}/drawbridge`;
      const names = existsSync(directory) ? readdirSync(directory) : [];
      assert.deepEqual(
        names.filter((name) => !["lock", "last_reserved_ip.0"].includes(name)),
        [],
        place,
      );
    }
    assert.deepEqual(this.hostRoutes, []);
  }

  /** Our routes on the node to single addresses on the bridge. */
  get hostRoutes(): readonly string[] {
    return (["-4", "-6"] as const)
      .flatMap((family) => ipJson(this.wired.node, family, "route", "show", "dev", "cni0"))
      .filter(({ protocol }) => protocol === "107")
      .map(({ dst }) => String(dst));
  }

  /** Asserts that a datagram from each namespace to an address of another one is answered. */
  async assertReached(
    ways: readonly (readonly [from: LabNamespace, to: LabNamespace, address: string])[],
  ): Promise<void> {
    using prober = new Prober(this.lab);
    const flows = ways.map(([from, namespace, text], index): Flow => {
      const to = { address: parseAddress(text), port: 7000 + index };
      prober.listen("udp", { namespace, ...to });
      return { protocol: "udp", from, to };
    });
    const results = await prober.run(flows);
    const lost = results.filter(({ reached }) => !reached);
    assert.deepEqual(
      lost.map(({ flow, why }) => `${flow.from.name} to ${formatAddress(flow.to.address)}: ${why}`),
      [],
    );
  }
}

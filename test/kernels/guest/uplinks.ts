import assert from "node:assert/strict";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { add, SOURCE } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { connect, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { parseMac } from "../../../kernel/ip/mac.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { podObject } from "./objects.ts";

const ETHERNET_MTU = 1500;
const [VXLAN_BYTES, WIREGUARD_BYTES, VLAN_BYTES] = [50, 80, 4];
const HEADERS = 28;

describe("uplink", function () {
  this.timeout(600_000);
  let lab: Lab;
  let nodes: readonly WiredNode[];
  const daemons: PolicydNode[] = [];

  beforeEach(() => {
    lab = createLab("uplink");
    const { node1, node2 } = twoNodes(lab);
    nodes = [node1, node2];
  });
  afterEach(async () => {
    for (const daemon of daemons.splice(0)) await daemon.kill();
    lab?.destroy();
  });

  const addressOf = (wired: WiredNode): string => (wired === nodes[0] ? "10.99.0.1" : "10.99.0.2");
  const otherThan = (wired: WiredNode): WiredNode => nodes.find((one) => one !== wired) ?? assert.fail();

  /** Attaches a pod on each node, whose address is that of its uplink. @returns the first */
  async function podsAcross(encapsulation: "auto" | "always"): Promise<LabPod> {
    const objects = nodes.flatMap((wired, index) => {
      const podCIDR = `10.244.${index + 1}.0/24`;
      const { name } = wired.node;
      return [
        {
          apiVersion: "v1",
          kind: "Node",
          metadata: { name },
          spec: { podCIDR, podCIDRs: [podCIDR] },
          status: { addresses: [{ type: "InternalIP", address: addressOf(wired) }] },
        },
        podObject(`p${index + 1}`, name),
      ];
    });
    const all = [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } }, ...objects];
    const pods = [];
    for (const [index, wired] of nodes.entries()) {
      mkdirSync(wired.node.runDir, { recursive: true });
      const daemon = new PolicydNode(lab, wired, "60s");
      daemons.push(daemon);
      daemon.put("objects.yaml", all.map((object) => JSON.stringify(object)).join("\n---\n"));
      const directory = `${lab.scratch}/${wired.node.name}`;
      const [cniBinDirectory, cniConfDirectory] = [`${directory}/bin`, `${directory}/conf`];
      for (const made of [cniBinDirectory, cniConfDirectory]) mkdirSync(made);
      const installation = { installCni: true, cniSourceDirectory: SOURCE, cniBinDirectory, cniConfDirectory };
      const header = { apiVersion: "drawbridge.dev/v1alpha1", kind: "PolicydConfiguration" };
      writeFileSync(`${directory}/daemon.yaml`, JSON.stringify({ ...header, ...installation }));
      const running = await daemon.start([`--encapsulation=${encapsulation}`, `--config=${directory}/daemon.yaml`]);
      const pod = lab.pod(`p${index + 1}`);
      await running.statusWhen(() => installedMtu(cniConfDirectory) !== undefined, "the plugin is installed");
      const mtu = installedMtu(cniConfDirectory);
      assert.deepEqual(add(wired, pod, { ...daemon.overrides, mtu }).error, undefined);
      pods.push(pod);
    }
    return pods[0] ?? assert.fail();
  }

  /** Returns the MTU in the plugin's configuration that a daemon has written. */
  function installedMtu(directory: string): number | undefined {
    const name = readdirSync(directory).find((file) => file.endsWith(".conflist"));
    if (name === undefined) return undefined;
    const { plugins } = JSON.parse(readFileSync(`${directory}/${name}`, "utf8")) as { plugins: { mtu: number }[] };
    return plugins[0]?.mtu;
  }

  /** Asserts that packets of exactly an MTU pass to the other node's pod, by a device. */
  function assertFullSize(pod: LabPod, device: RegExp, mtu: number): void {
    assert.match(pod.exec("ip", ["link", "show", "eth0"]), new RegExp(` mtu ${mtu} `));
    assert.match(pod.exec("ping", ["-c3", "-W5", "10.244.2.2"]), / 0% /);
    assert.match(nodes[0]?.node.exec("ip", ["route", "get", "10.244.2.2"]) ?? "", device);
    assert.match(pod.exec("ping", ["-c1", "-W5", "-M", "do", "-s", String(mtu - HEADERS), "10.244.2.2"]), / 0% /);
  }

  it("WireGuard: between nodes that reach only each other's addresses by it, encapsulation auto chooses VXLAN, and full-size packets pass", async () => {
    const keys = new Map(nodes.map((wired) => [wired, wired.node.exec("wg", ["genkey"]).trim()]));
    for (const wired of nodes) {
      const { node } = wired;
      const other = otherThan(wired);
      const publicKey = node.exec("wg", ["pubkey"], keys.get(other)).trim();
      const endpoint = `192.0.2.${other === nodes[0] ? 10 : 18}:51820`;
      const peer = ["peer", publicKey, "allowed-ips", `${addressOf(other)}/32`, "endpoint", endpoint];
      const file = `${lab.scratch}/${node.name}.key`;
      writeFileSync(file, keys.get(wired) ?? "", { mode: 0o600 });
      node.exec("ip", ["link", "add", "wg0", "type", "wireguard"]);
      node.exec("wg", ["set", "wg0", "listen-port", "51820", "private-key", file, ...peer]);
      node.exec("ip", ["address", "add", `${addressOf(wired)}/24`, "dev", "wg0"]);
      node.exec("ip", ["link", "set", "wg0", "up"]);
    }
    const pod = await podsAcross("auto");
    assertFullSize(pod, /dev drawbridge\.vx/, ETHERNET_MTU - WIREGUARD_BYTES - VXLAN_BYTES);
  });

  for (const [encapsulation, device] of [
    ["auto", /dev trunk\.42/],
    ["always", /dev drawbridge\.vx/],
  ] as const) {
    it(`VLAN: between nodes on VLAN devices with encapsulation ${encapsulation}, full-size packets pass`, async () => {
      const [a, b] = nodes.map(({ node }, index) => ({
        namespace: node,
        link: "trunk",
        mac: parseMac(`02:00:00:00:0a:0${index + 1}`),
        addresses: [],
      }));
      connect(a ?? assert.fail(), b ?? assert.fail());
      for (const wired of nodes) {
        const { node } = wired;
        node.exec("ip", ["link", "add", "link", "trunk", "name", "trunk.42", "type", "vlan", "id", "42"]);
        node.exec("ip", ["link", "set", "trunk.42", "mtu", String(ETHERNET_MTU - VLAN_BYTES), "up"]);
        node.exec("ip", ["address", "add", `${addressOf(wired)}/24`, "dev", "trunk.42"]);
      }
      const pod = await podsAcross(encapsulation);
      assertFullSize(pod, device, ETHERNET_MTU - VLAN_BYTES - VXLAN_BYTES);
    });
  }
});

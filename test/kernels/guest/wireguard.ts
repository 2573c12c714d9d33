import assert from "node:assert/strict";
import { mkdirSync, writeFileSync } from "node:fs";
import { add } from "../../lab/cni.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { twoNodes } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { podObject } from "./objects.ts";

/** WireGuard's 60 bytes and VXLAN's 50 below the uplink's 1500. */
const MTU = 1500 - 80 - 50;
const HEADERS = 28;

describe("encrypted", function () {
  this.timeout(600_000);
  let lab: Lab;
  const daemons: PolicydNode[] = [];

  before(() => {
    lab = createLab("wireguard");
  });
  after(async () => {
    for (const daemon of daemons) await daemon.kill();
    lab?.destroy();
  });

  it("WireGuard: between nodes that reach only each other's addresses by it, encapsulation auto chooses VXLAN, and full-size packets pass", async () => {
    const { node1, node2 } = twoNodes(lab);
    const ends = [node1, node2].map((wired, index) => {
      const { node } = wired;
      const key = node.exec("wg", ["genkey"]).trim();
      const publicKey = node.exec("wg", ["pubkey"], key).trim();
      return { wired, node, key, publicKey, address: `10.99.0.${index + 1}`, outer: `192.0.2.${8 * (index + 1) + 2}` };
    });
    for (const end of ends) {
      const other = ends.find((one) => one !== end);
      assert.ok(other !== undefined);
      const { node, key, address } = end;
      node.exec("ip", ["link", "add", "wg0", "type", "wireguard"]);
      const peer = ["peer", other.publicKey, "allowed-ips", `${other.address}/32`, "endpoint", `${other.outer}:51820`];
      const file = `${lab.scratch}/${node.name}.key`;
      writeFileSync(file, key, { mode: 0o600 });
      node.exec("wg", ["set", "wg0", "listen-port", "51820", "private-key", file, ...peer]);
      node.exec("ip", ["address", "add", `${address}/24`, "dev", "wg0"]);
      node.exec("ip", ["link", "set", "wg0", "up"]);
    }
    const nodes = ends.map(({ wired, address }) => ({
      apiVersion: "v1",
      kind: "Node",
      metadata: { name: wired.node.name },
      spec: { podCIDR: `10.244.${address.at(-1)}.0/24`, podCIDRs: [`10.244.${address.at(-1)}.0/24`] },
      status: { addresses: [{ type: "InternalIP", address }] },
    }));
    const objects = [...nodes, podObject("p1", "node1"), podObject("p2", "node2")];
    const text = [{ apiVersion: "v1", kind: "Namespace", metadata: { name: "default" } }, ...objects];
    const pods = [];
    for (const { wired } of ends) {
      mkdirSync(wired.node.runDir, { recursive: true });
      const daemon = new PolicydNode(lab, wired, "60s");
      daemons.push(daemon);
      daemon.put("objects.yaml", text.map((object) => JSON.stringify(object)).join("\n---\n"));
      await daemon.start(["--encapsulation=auto"]);
      const pod = lab.pod(wired === node1 ? "p1" : "p2");
      assert.deepEqual(add(wired, pod, { ...daemon.overrides, mtu: MTU }).error, undefined);
      pods.push(pod);
    }
    const [p1] = pods;
    assert.match(p1?.exec("ping", ["-c3", "-W5", "10.244.2.2"]) ?? "", / 0% /);
    assert.match(node1.node.exec("ip", ["route", "get", "10.244.2.2"]), /dev drawbridge\.vx/);
    assert.match(node1.node.exec("ip", ["-d", "link", "show", "type", "vxlan"]), /vxlan id/);
    const size = String(MTU - HEADERS);
    assert.match(p1?.exec("ping", ["-c1", "-W5", "-M", "do", "-s", size, "10.244.2.2"]) ?? "", / 0% /);
  });
});

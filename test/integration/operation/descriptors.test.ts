import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { add, del } from "../../lab/cni.ts";
import { createLab } from "../../lab/lab.ts";
import { twoNodes } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { serviceManifest } from "../../support/services/manifest.ts";

describe("a daemon that can open no more files", function () {
  this.timeout(120_000);
  before(function () {
    requireKernel(this);
  });

  it("DAEMON-10: the daemon outlives a time without descriptors, in which its files, links, settings and rules change, and then attaches pods", async () => {
    const lab = createLab("descriptors");
    const { node1 } = twoNodes(lab);
    const { node } = node1;
    const policyd = new PolicydNode(lab, node1);
    try {
      const daemon = await policyd.start();
      const [first, second] = [lab.pod("first"), lab.pod("second")];
      assert.equal(add(node1, first, policyd.overrides).error, undefined);
      // The descriptors of the ADD are closed by then.
      await pause(1000);
      const pid = String(daemon.child.pid);
      const open = new Set(readdirSync(`/proc/${pid}/fd`).map(Number));
      const free = Array.from({ length: open.size + 1 }, (_, fd) => fd).find((fd) => !open.has(fd));
      const limit = (files: number): Buffer => execFileSync("prlimit", ["--pid", pid, `--nofile=${files}:`]);
      limit(free ?? assert.fail());
      const endpoint = { address: parseAddress("10.244.1.2"), nodeName: "node1" };
      const local = { type: "LoadBalancer", externalTrafficPolicy: "Local", healthCheckNodePort: 31_998 };
      policyd.put("vote.yaml", serviceManifest("vote", ["10.96.0.20"], [endpoint], local, 30_588));
      assert.notEqual(add(node1, second, policyd.overridesWith({ wait: "1s" })).error, undefined);
      assert.equal(del(node1, first, policyd.overrides).exitCode, 0);
      node.exec("nft", ["flush", "ruleset"]);
      node.exec("ip", ["link", "add", "late", "type", "veth"]);
      node.exec("ip", ["address", "add", "198.51.100.9/24", "dev", "late"]);
      node.exec("sysctl", ["-q", "-w", "net.ipv4.ip_forward=0", "net.ipv4.conf.cni0.send_redirects=1"]);
      // Each of the daemon's periods but the longest ones comes by.
      await pause(12_000);
      assert.equal(daemon.child.exitCode, null, daemon.log());
      limit(4096);
      node.exec("sysctl", ["-q", "-w", "net.ipv4.ip_forward=1"]);
      assert.equal(add(node1, second, policyd.overrides).error, undefined);
      await daemon.statusWhen(
        ({ problemCount, objects }) => problemCount === 0 && objects["Service"] === 1,
        "all well",
      );
    } finally {
      await policyd.kill();
      lab.destroy();
    }
  });
});

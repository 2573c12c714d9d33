import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { add, LAB_BRIDGE } from "../../lab/cni.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { twoNodes } from "../../lab/topology.ts";
import { type DaemonProcess, followDaemon } from "../../support/daemon/policyd.ts";
import { lacks } from "./kernel.ts";
import { serviceObjects } from "./objects.ts";

/** Where the image for this processor is unpacked. */
const IMAGE = "/image";

describe("container", function () {
  this.timeout(600_000);
  let lab: Lab;
  let daemon: DaemonProcess | undefined;

  before(() => {
    lab = createLab("image");
    for (const place of ["proc", "sys", "dev", "run", "tmp"]) {
      mkdirSync(`${IMAGE}/${place}`, { recursive: true });
      // Namespaces that the lab pins later appear in there, too.
      for (const args of [
        ["--make-rshared", `/${place}`],
        ["--rbind", `/${place}`, `${IMAGE}/${place}`],
      ])
        assert.equal(spawnSync("mount", args).status, 0, args.join(" "));
    }
  });
  after(async () => {
    await daemon?.kill("SIGKILL");
    lab?.destroy();
  });

  it("image: daemon, plugin and command line run from its root, and pods answer each other through a Service", async () => {
    const { node1: wired } = twoNodes(lab);
    const { node } = wired;
    const [objects, socket] = [`${lab.scratch}/objects`, `${node.runDir}/policyd.sock`];
    mkdirSync(objects);
    writeFileSync(`${objects}/objects.yaml`, serviceObjects());
    const places = ["--state-directory", node.runDir, "--socket", socket, "--bridge", LAB_BRIDGE];
    const isolated = ["--network-namespace", node.path, "--objects", objects, "--node-name", node.name];
    const inImage = (script: string): readonly string[] => [IMAGE, "/usr/bin/node", `/opt/drawbridge/${script}`];
    const args = [...inImage("policyd/policyd.js"), ...places, ...isolated];
    const child = spawn("chroot", args, { stdio: ["ignore", "ignore", "pipe"] });
    daemon = followDaemon(child, socket);
    await daemon.statusWhen(({ isSynced }) => isSynced, "synced");
    const overrides = { policyd: { socket, wait: "60s" } };
    const options = { launcher: ["chroot", IMAGE], executable: "/opt/drawbridge/cni/drawbridge" };
    const [a, b] = ["a", "b"].map((name) => {
      const pod = lab.pod(name);
      assert.deepEqual(add(wired, pod, overrides, options).error, undefined);
      return pod;
    });
    const server = b?.inside(() => spawn("socat", ["TCP-LISTEN:8080,fork,reuseaddr", "SYSTEM:echo hello"]));
    try {
      const get = ["-T30", "-t30", "-", "TCP:10.96.0.10:80,retry=20,interval=0.5"];
      assert.match(a?.exec("socat", get, "q\n") ?? "", /hello/);
    } finally {
      server?.kill("SIGKILL");
    }
    const doctor = [...inImage("cli/drawbridge.js"), "node", "doctor", ...places, "--network-namespace", node.path];
    const only = ["--only", "kernel-version,kernel-features,tables,node-state"];
    const { status, stdout, stderr } = spawnSync("chroot", [...doctor, ...only], { encoding: "utf8" });
    // A warning about what the kernel lacks is a finding, too.
    assert.equal(status, lacks("NETFILTER_NETLINK_LOG") ? 1 : 0, `${stdout}${stderr}`);
  });
});

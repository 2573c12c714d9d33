import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { add, version } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import { twoNodes, UPLINK, type WiredNode } from "../../lab/topology.ts";
import { configured, type DaemonProcess, installing } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { testLab } from "../../support/suite_lab.ts";
import { nodeOf } from "../../support/routes/route_lab.ts";

describe("policyd installs the plugin", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let directory = "";

  beforeEach(function () {
    lab = testLab(this, "policyd-installs");
    ({ node1: wired } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
    directory = `${lab.scratch}/host`;
    mkdirSync(directory);
  });
  const configurationFile = (): string => `${directory}/conf/10-drawbridge.conflist`;

  async function start(...args: readonly string[]): Promise<DaemonProcess> {
    return await policyd.start([configured(directory, installing(directory)), ...args]);
  }

  function putNode(): void {
    policyd.put("node.json", JSON.stringify(nodeOf(wired)));
  }

  it("POD-17 D5 STATE-01: the installed plugin attaches a pod, comes back when it is wiped, and stays when policyd ends", async () => {
    const daemon = await start();
    await daemon.statusWhen(
      ({ problems }) => problems.join().includes("no Node object node1"),
      "it waits for its Node",
    );
    assert.ok(!existsSync(configurationFile()));
    putNode();
    await daemon.statusWhen(
      ({ problemCount }) => problemCount === 0 && existsSync(configurationFile()),
      "the configuration is there",
    );
    const list: unknown = JSON.parse(readFileSync(configurationFile(), "utf8"));
    assert.ok(typeof list === "object" && list !== null && "plugins" in list && Array.isArray(list.plugins));
    const { cniVersion, name, plugins } = list as typeof list & {
      readonly cniVersion: unknown;
      readonly name: unknown;
    };
    const [plugin] = plugins as readonly (object & { readonly ipam: object })[];
    assert.ok(plugin !== undefined);
    const executable = `${directory}/bin/drawbridge`;
    // Only the address store is the lab's.
    const configuration = { ...plugin, cniVersion, name, ipam: { ...plugin.ipam, dataDir: wired.node.dataDir } };
    const outcome = add(wired, lab.pod("a"), configuration, { executable });
    assert.deepEqual([outcome.error, outcome.exitCode], [undefined, 0]);
    assert.equal(daemon.status().attachments, 1);
    const names = ["drawbridge", "drawbridge-ipam", "loopback"];
    assert.deepEqual(readdirSync(`${directory}/bin`).sort(), names);
    for (const file of names) {
      assert.equal(version(wired.node, `${directory}/bin/${file}`).exitCode, 0, file);
      assert.equal(statSync(`${directory}/bin/${file}`).ino, statSync(executable).ino, "one file");
    }
    rmSync(`${directory}/bin`, { recursive: true, maxRetries: 5 });
    rmSync(configurationFile());
    await daemon.statusWhen(() => existsSync(configurationFile()) && existsSync(executable), "all of it is back");
    assert.equal(version(wired.node, executable).exitCode, 0);
    await daemon.kill("SIGTERM");
    assert.ok(existsSync(configurationFile()) && existsSync(executable), "pods go on being removed");
  });

  it("D5 D10: the pods' MTU follows the network's, less the overhead of a tunnel where there may be one", async () => {
    const installed = (): string => (existsSync(configurationFile()) ? readFileSync(configurationFile(), "utf8") : "");
    const hasMtu = (mtu: number) => (): boolean => installed().includes(`"mtu": ${mtu},`);
    putNode();
    for (const [encapsulation, mtu] of [
      ["never", 1500],
      ["auto", 1450],
    ] as const) {
      const daemon = await start(`--encapsulation=${encapsulation}`);
      await daemon.statusWhen(hasMtu(mtu), `${encapsulation}: ${mtu}`);
      wired.node.exec("ip", ["link", "set", UPLINK, "mtu", "1400"]);
      await daemon.statusWhen(hasMtu(mtu - 100), `${encapsulation}: 100 less`);
      assert.doesNotMatch(daemon.log(), /again: another program/);
      wired.node.exec("ip", ["link", "set", UPLINK, "down"]);
      rmSync(configurationFile());
      await daemon.statusWhen(hasMtu(mtu - 100), "it is kept while the network is away");
      wired.node.exec("ip", ["link", "set", UPLINK, "up", "mtu", "1500"]);
      await daemon.statusWhen(hasMtu(mtu), "as before");
      await policyd.kill();
    }
  });

  it("SYSCTL-01: policyd raises the settings of its own network namespace, reports those that only the machine's first one has, and gives back what it no longer asks for", async () => {
    const key = "net/netfilter/nf_conntrack_tcp_timeout_close_wait";
    const keys = [
      key,
      "net/ipv4/ipfrag_high_thresh",
      "net/ipv4/ipfrag_time",
      "net/netfilter/nf_conntrack_frag6_timeout",
    ];
    const values = (): readonly (string | undefined)[] => keys.map((one) => wired.node.readSysctl(one));
    const before = values();
    const daemon = await policyd.start();
    const isReported = (): boolean =>
      /kernel setting raised .*timeout_close_wait before=60 after=3600/.test(daemon.log());
    await daemon.statusWhen(isReported, "the setting is raised");
    assert.equal(wired.node.readSysctl(key), "3600");
    const max = Number(wired.node.readSysctl("net/netfilter/nf_conntrack_max"));
    if (max < 131_072)
      assert.match(daemon.log(), /warn .*setting=net\.netfilter\.nf_conntrack_max .*cannot be written/);
    assert.equal(values().filter((value, index) => value === before[index]).length, 0);
    await policyd.kill();
    await policyd.start([configured(lab.scratch, { fragmentMemory: 0, conntrackCloseWaitTimeout: "0s" })]);
    assert.deepEqual(values(), before);
  });
});

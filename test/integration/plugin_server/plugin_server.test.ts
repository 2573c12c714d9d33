import assert from "node:assert/strict";
import { copyFileSync, mkdirSync, readlinkSync, renameSync, symlinkSync } from "node:fs";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import {
  type CallOutcome,
  type Configuration,
  configurationOf,
  DRAWBRIDGE,
  podCall,
  startPlugin,
} from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { ServedPlugin } from "../../support/cni/served_plugin.ts";
import { hostInterfaceOf, podResult } from "../../support/cni/add_result.ts";
import { podAddresses } from "../../support/cni/container_state.ts";
import { bridgePort, nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { rawCall, type RawOutcome } from "../../support/cni/raw_call.ts";

const AT_ONCE = 30;

describe("the plugin server", function () {
  this.timeout(60_000);
  let lab: Lab;
  let nodes: TwoNodes;
  let wired: WiredNode;
  let plugin: ServedPlugin;

  beforeEach(function () {
    requireKernel(this);
    lab = createLab("server");
    nodes = twoNodes(lab);
    wired = nodes.node1;
    plugin = new ServedPlugin(lab);
  });
  afterEach(() => lab?.destroy());

  const start = (command: "ADD" | "DEL", node: WiredNode, pod: LabPod, changes: Configuration = {}) =>
    startPlugin(node.node, podCall(command, node, pod, changes, { executable: plugin.executable }));

  async function all(
    command: "ADD" | "DEL",
    pods: readonly LabPod[],
    changes: Configuration = {},
    nodeOf: (pod: LabPod, index: number) => WiredNode = () => wired,
  ): Promise<readonly CallOutcome[]> {
    const running = pods.map((pod, i) => start(command, nodeOf(pod, i), pod, changes));
    const outcomes = await Promise.all(running.map(({ outcome }) => outcome));
    for (const { exitCode, stdout } of outcomes) assert.equal(exitCode, 0, stdout);
    return outcomes;
  }

  it("SERVER-01: the first call runs without the server and starts it; served calls give byte for byte the same", () => {
    const cold = `${lab.scratch}/cold`;
    mkdirSync(cold);
    for (const face of ["drawbridge", "drawbridge-ipam", "loopback"]) symlinkSync(DRAWBRIDGE, `${cold}/${face}`);
    const pod = lab.pod("a");
    const calls = everyKindOfCall(wired, pod);
    const run = (directory: string): readonly RawOutcome[] =>
      calls.map(({ face, environment, stdin }) => rawCall(wired.node, environment, stdin, `${directory}/${face}`));
    const expected = run(cold);
    assert.equal(plugin.server.pid, undefined);
    plugin.warm();
    plugin.forbidCold();
    const served = run(plugin.directory);
    for (const [i, { what }] of calls.entries()) assert.deepEqual(served[i], expected[i], what);
    assert.deepEqual(new Set(expected.map(({ exitCode }) => exitCode)), new Set([0, 1]));
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("SERVER-04: nodes in different network namespaces share one server, and each pod is wired to its own node", async () => {
    plugin.warm();
    plugin.forbidCold();
    const pods = Array.from({ length: 12 }, (_, i) => lab.pod(`p${i}`));
    const nodeOf = (_pod: LabPod, index: number): WiredNode => (index % 2 === 0 ? nodes.node1 : nodes.node2);
    const outcomes = await all("ADD", pods, {}, nodeOf);
    for (const [i, outcome] of outcomes.entries()) {
      const [pod, own] = [pods[i], i % 2 === 0 ? "10.244.1." : "10.244.2."];
      assert.ok(pod !== undefined);
      const addresses = podAddresses(pod);
      assert.deepEqual(
        addresses.toSorted(),
        podResult(outcome)
          .ips.map(({ address }) => address)
          .toSorted(),
      );
      assert.ok(
        addresses.some((address) => address.startsWith(own)),
        `${addresses.join()} of node ${i % 2}`,
      );
    }
    for (const { node } of [nodes.node1, nodes.node2]) assert.equal(nodeState(node).podLinks.length, 6);
    // The server leaves simultaneous DELs to the shims: each blocks in the kernel.
    plugin.allowCold();
    await all("DEL", pods, {}, nodeOf);
    for (const { node } of [nodes.node1, nodes.node2]) assert.deepEqual(nodeState(node), nothingHeld);
    const home = `net:[${plugin.home.handle.inode}]`;
    const isAtRest = (): boolean => readlinkSync(`/proc/${plugin.server.pid}/ns/net`) === home;
    assert.ok(await eventually(isAtRest), "a server without calls stays in no node's namespace");
  });

  for (const withDaemon of [false, true]) {
    it(`SERVER-05: ${AT_ONCE} ADDs and DELs at once${withDaemon ? " with policyd" : ""} leave no descriptor in the server, and no link`, async () => {
      const policyd = new PolicydNode(lab, wired);
      if (withDaemon) await policyd.start();
      try {
        const changes = withDaemon ? policyd.overrides : {};
        plugin.warm();
        plugin.forbidCold();
        // The first calls load and open everything that later calls share.
        const first = [lab.pod("first")];
        await all("ADD", first, changes);
        await all("DEL", first, changes);
        const before = plugin.descriptors;
        const pods = Array.from({ length: AT_ONCE }, (_, i) => lab.pod(`p${i}`));
        const outcomes = await all("ADD", pods, changes);
        const given = outcomes.flatMap((outcome) => podResult(outcome).ips.map(({ address }) => address));
        assert.equal(new Set(given).size, 2 * AT_ONCE, "no address is given twice");
        assert.deepEqual(pods.flatMap(podAddresses).toSorted(), given.toSorted());
        // Without the daemon the server leaves simultaneous DELs to the shims: each blocks in the kernel.
        if (!withDaemon) plugin.allowCold();
        await all("DEL", pods, changes);
        assert.deepEqual(nodeState(wired.node), nothingHeld);
        assert.ok(await eventually(() => plugin.descriptors <= before), `${plugin.descriptors}, and ${before} before`);
      } finally {
        await policyd.kill();
      }
    });
  }

  it("POD-11: each bridge port keeps the hairpin flag of its hairpinMode when the plugin server and policyd are restarted", async () => {
    const policyd = new PolicydNode(lab, wired);
    const modes = new Map<string, boolean>();
    try {
      for (const round of ["before", "behind"]) {
        await policyd.start();
        plugin.warm();
        for (const hairpinMode of [true, false]) {
          const [outcome] = await all("ADD", [lab.pod(`${round}-${hairpinMode}`)], {
            ...policyd.overrides,
            hairpinMode,
          });
          assert.ok(outcome !== undefined);
          modes.set(hostInterfaceOf(podResult(outcome)), hairpinMode);
        }
        for (const [port, mode] of modes)
          assert.equal(bridgePort(wired.node, port)?.["hairpin"], mode, `${port} ${round}`);
        plugin.server.end();
        await policyd.kill();
      }
    } finally {
      await policyd.kill();
    }
    assert.equal(modes.size, 4);
  });

  it("SERVER-06: after its executable is replaced, the new one does the next call, and the old server ends", async () => {
    const place = `${plugin.directory}/drawbridge-plugin`;
    const replace = (): void => {
      copyFileSync(DRAWBRIDGE, `${plugin.directory}/new`);
      renameSync(`${plugin.directory}/new`, place);
    };
    replace();
    const old = plugin.warm();
    replace();
    const pods = [lab.pod("a"), lab.pod("b"), lab.pod("c")];
    await all("ADD", pods);
    assert.ok(await eventually(() => plugin.server.pid !== old), "the old server has ended");
    const current = plugin.warm();
    assert.notEqual(current, old);
    assert.equal(readlinkSync(`/proc/${current}/exe`), place);
    await all("DEL", pods);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });
});

interface KindOfCall {
  readonly what: string;
  readonly face: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** Returns calls of every face, which succeed or fail, leave nothing, and give the same result each time. */
function everyKindOfCall(wired: WiredNode, pod: LabPod): readonly KindOfCall[] {
  const { environment: runtime } = podCall("ADD", wired, pod);
  const range = (subnet: string, last: string): object => [{ subnet, rangeStart: last, rangeEnd: last }];
  const [ipv4 = "", ipv6 = ""] = wired.podCidrs.map(formatCidr);
  const ipam = { type: "host-local", dataDir: wired.node.dataDir };
  // The ranges have one address of each family, so that every ADD gets the same ones.
  const ranges = [range(ipv4, "10.244.1.77"), range(ipv6, "fd00:244:1::77")];
  const one = JSON.stringify(configurationOf(wired, { ipam: { ...ipam, ranges } }));
  const loopback = JSON.stringify({ cniVersion: "1.0.0", name: "lo", type: "loopback" });
  const of = (
    what: string,
    command: string,
    stdin: string,
    changes: Record<string, string> = {},
    face = "drawbridge",
  ) => ({
    what,
    face,
    environment: { ...runtime, CNI_PATH: "/opt/cni/bin", CNI_COMMAND: command, ...changes },
    stdin,
  });
  return [
    of("VERSION", "VERSION", '{"cniVersion":"1.0.0"}'),
    of("VERSION without input", "VERSION", ""),
    of("ADD", "ADD", one),
    of("ADD a second time", "ADD", one),
    of("ADD when no address is left", "ADD", one, { CNI_CONTAINERID: "another" }),
    of("DEL", "DEL", one),
    of("DEL a second time", "DEL", one),
    of("DEL without CNI_NETNS", "DEL", one, { CNI_NETNS: "" }),
    of("ipam ADD", "ADD", one, {}, "drawbridge-ipam"),
    of("ipam DEL", "DEL", one, {}, "drawbridge-ipam"),
    of("loopback ADD", "ADD", loopback, { CNI_IFNAME: "lo" }, "loopback"),
    of("loopback DEL", "DEL", loopback, { CNI_IFNAME: "lo" }, "loopback"),
    of("an unknown command", "CHECK", one),
    of("no container", "ADD", one, { CNI_CONTAINERID: "" }),
    of("no configuration", "ADD", ""),
    of("half a configuration", "ADD", one.slice(0, -10)),
    of("an unknown version", "ADD", one.replace('"1.1.0"', '"9.0.0"')),
    of("a relative directory", "ADD", one.replace(JSON.stringify(ipam.dataDir), '"networks"')),
    of("a namespace that does not exist", "ADD", one, { CNI_NETNS: "/run/netns/none" }),
    of("the node's own namespace", "ADD", one, { CNI_NETNS: wired.node.path }),
  ];
}

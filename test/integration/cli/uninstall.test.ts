import assert from "node:assert/strict";
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { carryOut } from "../../../cli/node/cleanup/carry_out.ts";
import type { Inventory } from "../../../cli/node/cleanup/inventory.ts";
import { type CleanupPlan, cleanupPlan } from "../../../cli/node/cleanup/plan.ts";
import { systemMachine } from "../../../cli/node/machine/system_machine.ts";
import type { NodePlace } from "../../../cli/node/place.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import {
  add,
  type CallOutcome,
  callPlugin,
  type Configuration,
  DRAWBRIDGE,
  networkStatus,
  podCall,
} from "../../lab/cni.ts";
import { createLab, type Lab, LabPod } from "../../lab/lab.ts";
import { ALL_SETTINGS, type NetworkState, networkState } from "../../lab/network_state.ts";
import { type TwoNodes, twoNodes, type WiredNode } from "../../lab/topology.ts";
import { filesBelow } from "../../support/cli/files_below.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { until } from "../../support/until.ts";
import { pod as apiPod } from "../../support/daemon/api_node.ts";
import { configured } from "../../support/daemon/policyd.ts";
import { networkPolicy } from "../../support/policy/manifest.ts";
import { nodeOf } from "../../support/routes/route_lab.ts";
import { serviceObjects } from "../../support/services/manifest.ts";

const CLOSE_WAIT = "net/netfilter/nf_conntrack_tcp_timeout_close_wait";
const REDIRECTS = "net/ipv4/conf/all/send_redirects";

/** A pod's demands that leave something on the node: host ports, also on localhost, and limits in both directions. */
const DEMANDS: Configuration = {
  runtimeConfig: {
    portMappings: [
      { hostPort: 8080, containerPort: 80, protocol: "tcp" },
      { hostPort: 8081, containerPort: 81, protocol: "udp", hostIP: "127.0.0.1" },
    ],
    bandwidth: { ingressRate: 50e6, ingressBurst: 1e6, egressRate: 50e6, egressBurst: 1e6 },
  },
};

/** A way to run Drawbridge on a node. Each changes other things there. */
interface Mode {
  readonly name: string;
  /** Fields of the daemon's configuration; undefined where the plugin works without a daemon. */
  readonly daemon: Configuration | undefined;
  readonly args?: readonly string[];
  /** Keys of the plugin's configuration. */
  readonly plugin?: Configuration;
}

const MODES: readonly Mode[] = [
  { name: "Services are ours and packets between nodes go by VXLAN", daemon: {}, args: ["--encapsulation=always"] },
  {
    name: "kube-proxy keeps the Services and packets of pods pass the bridge",
    daemon: { services: false },
    plugin: { bypassBridge: false },
  },
  { name: "the plugin works without the daemon", daemon: undefined, plugin: { ipMasq: true, macspoofchk: true } },
];

const FOREIGN_TABLES = `table inet another {
  chain forward { type filter hook forward priority 0; ct state established accept; }
}
table bridge another { chain c { type filter hook forward priority 0; }
}
table inet drawbridge-other { chain c { type filter hook forward priority 0; }
}
`;

interface Snapshot extends NetworkState {
  readonly files: readonly string[];
  readonly mounts: string;
}

describe("uninstalling leaves a node as it was before", function () {
  this.timeout(180_000);
  /** One for all tests, each of which leaves its node as it was, but the last two and one that fails. */
  let lab: Lab;
  let isMade = false;
  let net: TwoNodes;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let place: NodePlace;
  let root = "";

  beforeEach(function () {
    requireKernel(this);
    if (isMade) return;
    lab = createLab("uninstall");
    net = twoNodes(lab, { mtu: 1450 });
    wired = net.node1;
    policyd = new PolicydNode(lab, wired);
    root = `${lab.scratch}/host`;
    place = {
      configurationDirectory: `${root}/net.d`,
      binaryDirectory: `${root}/bin`,
      dataDirectory: `${root}/networks`,
      stateDirectory: `${root}/run`,
      socket: `${lab.scratch}/policyd-${wired.node.name}/run/policyd.sock`,
      bridge: "cni0",
      flowDirectory: `${root}/flows`,
      networkNamespace: undefined,
    };
    for (const directory of [place.configurationDirectory, place.binaryDirectory, place.dataDirectory])
      mkdirSync(directory, { recursive: true });
    others();
    isMade = true;
  });
  afterEach(async function () {
    await policyd?.kill();
    for (const namespace of lab?.namespaces ?? []) if (namespace instanceof LabPod) lab.remove(namespace);
    if (this.currentTest?.state === "failed") destroy();
  });
  after(destroy);

  function destroy(): void {
    isMade = false;
    lab?.destroy();
  }

  /** Puts things of other programs on the node. */
  function others(): void {
    const { node } = wired;
    node.exec("nft", ["-f", "-"], FOREIGN_TABLES);
    node.exec("iptables", ["-N", "ANOTHER"]);
    node.exec("iptables", ["-A", "FORWARD", "-j", "ANOTHER"]);
    for (const line of [
      "link add br-other address 02:00:00:00:99:01 type bridge",
      "link set br-other up",
      "address add 198.51.100.1/24 dev br-other",
      "route add 203.0.113.0/24 dev br-other proto 99",
      "route add 203.0.112.0/24 dev br-other proto 99 metric 107",
      "rule add pref 5000 from 203.0.113.7 lookup 99",
      "neighbour add 198.51.100.9 lladdr 02:00:00:00:99:09 dev br-other nud permanent",
    ]) {
      node.exec("ip", line.split(" "));
    }
    node.exec("tc", ["qdisc", "add", "dev", "br-other", "clsact"]);
    writeFileSync(`${place.configurationDirectory}/87-podman.conflist.disabled`, "{}");
    mkdirSync(`${place.dataDirectory}/another`);
    writeFileSync(`${place.dataDirectory}/another/192.0.2.1`, "x\r\neth0");
    writeFileSync(`${place.binaryDirectory}/bridge`, "another's", { mode: 0o755 });
  }

  function snapshot(): Snapshot {
    const state = wired.node.inside(() => networkState(ALL_SETTINGS));
    // Other tests of this machine mount at the same time.
    const isOfNode = (line: string): boolean =>
      line.includes(` ${root}`) || / \/(etc|opt|var\/lib)\/cni| \/run\/drawbridge/.test(line);
    const mounts = readFileSync("/proc/self/mounts", "utf8").split("\n").filter(isOfNode).join("\n");
    return { ...state, files: filesBelow(root), mounts };
  }

  async function install({ daemon, args = [] }: Mode): Promise<void> {
    if (daemon === undefined) {
      for (const name of ["drawbridge", "drawbridge-ipam", "loopback"])
        copyFileSync(DRAWBRIDGE, `${place.binaryDirectory}/${name}`);
      return;
    }
    for (const node of [net.node1, net.node2]) put(`${node.node.name}.json`, nodeOf(node));
    // Without the objects of the pods, which the policy may select, each ADD would wait for ten seconds.
    for (const name of ["a", "b", "c", "d"]) {
      put(`${name}.json`, apiPod(name, name));
    }
    const ports = [{ protocol: "TCP", port: 80, targetPort: 80, nodePort: 30_080 }] as const;
    const [service] = serviceObjects("default/web", ["10.96.0.7"], ports, []);
    put("service.json", service);
    put("policy.json", networkPolicy("default", { podSelector: {}, policyTypes: ["Ingress"] }, "web"));
    const fields = {
      installCni: true,
      cniSourceDirectory: path.dirname(DRAWBRIDGE),
      cniBinDirectory: place.binaryDirectory,
      cniConfDirectory: place.configurationDirectory,
      ...daemon,
    };
    const process = await policyd.start([
      configured(lab.scratch, fields),
      `--state-directory=${place.stateDirectory}`,
      ...args,
    ]);
    const isInstalled = (): boolean => existsSync(`${place.configurationDirectory}/10-drawbridge.conflist`);
    await process.statusWhen(isInstalled, "the plugin is installed");
  }

  function put(name: string, object: object): void {
    policyd.put(name, JSON.stringify(object));
  }

  const executable = (): string => `${place.binaryDirectory}/drawbridge`;

  /** Returns the plugin's configuration, from the list that the daemon has installed or made by hand. */
  function pluginConfiguration({ daemon, plugin = {} }: Mode): Configuration {
    const hand = { runDir: place.stateDirectory, ipam: ipamOf(), ...plugin };
    if (daemon === undefined) return hand;
    return { ...listed("10-drawbridge.conflist"), ...hand };
  }

  function ipamOf(subnets = wired.podCidrs.map(formatCidr)): Configuration {
    return { type: "host-local", dataDir: place.dataDirectory, ranges: subnets.map((subnet) => [{ subnet }]) };
  }

  /** Returns our entry of a list, as a runtime gives it to the plugin. */
  function listed(file: string): Configuration {
    const text = readFileSync(`${place.configurationDirectory}/${file}`, "utf8");
    const { name, plugins } = JSON.parse(text) as { readonly name: string; readonly plugins: readonly Configuration[] };
    return { ...plugins.find(({ type }) => type === "drawbridge"), name, cniVersion: "1.1.0" };
  }

  const inventory = (): Inventory => wired.node.inside(() => systemMachine(lab.calls).readInventory(place));

  /** Runs the cleanup with `--pods --yes`. @throws AssertionError when a part of it fails */
  function cleanUp(): CleanupPlan {
    const machine = systemMachine(lab.calls);
    return wired.node.inside(() => {
      const plan = cleanupPlan(machine.readInventory(place), true);
      const failures = carryOut(machine, plan.removals).filter(({ failure }) => failure !== undefined);
      assert.deepEqual(failures, []);
      return plan;
    });
  }

  function call(verb: "ADD" | "DEL", pod: LabPod, configuration: Configuration): CallOutcome {
    return callPlugin(wired.node, podCall(verb, wired, pod, configuration, { executable: executable() }));
  }

  /**
   * Asserts that the node is in every respect as it was.
   *
   * @param changed the settings that may differ, with their values
   */
  function assertRestored(before: Snapshot, changed: Readonly<Record<string, string>> = {}): void {
    const { settings: earlier, ...rest } = before;
    const { settings, ...now } = snapshot();
    assert.deepEqual(now, rest);
    const differing = [...new Set([...earlier.keys(), ...settings.keys()])]
      .filter((key) => settings.get(key) !== earlier.get(key))
      .map((key) => [key.replace("/proc/sys/", ""), settings.get(key)?.trim()]);
    assert.deepEqual(Object.fromEntries(differing), changed);
  }

  for (const mode of MODES) {
    it(`UNINSTALL-01: where ${mode.name}, the node ends as it was before, and the programs that stay in between delete pods`, async () => {
      // Without the daemon only one bridge may have the network.
      const isBeside = mode.daemon !== undefined;
      for (const address of ["10.244.1.254/24", "fd00:244:1::fe/64"]) {
        wired.node.exec("ip", ["address", isBeside ? "replace" : "delete", address, "dev", "br-other", "nodad"]);
      }
      const before = snapshot();
      const pods = ["a", "b"].map((name) => lab.pod(name));
      const [a, b] = pods;
      assert.ok(a !== undefined && b !== undefined);
      await install(mode);
      const configuration = pluginConfiguration(mode);
      assert.equal(call("ADD", a, { ...configuration, ...DEMANDS }).error, undefined);
      if (isBeside) assert.equal(inventory().proxies.length, 2, "a has addresses of another bridge's networks");
      // As of a NetworkAttachmentDefinition.
      const second = { ...configuration, name: "second" };
      assert.equal(call("ADD", b, second).error, undefined);
      assert.equal(networkStatus(wired, configuration, executable()).error, undefined);
      // A range that is full is noted on the node.
      const full = { ...configuration, ipam: ipamOf(["10.244.77.0/30"]) };
      const [c, d] = ["c", "d"].map((name) => lab.pod(name));
      assert.ok(c !== undefined && d !== undefined);
      call("ADD", c, full);
      assert.notEqual(call("ADD", d, full).error, undefined);
      assert.equal(wired.node.readSysctl(REDIRECTS), "0");
      const isRaised = (): boolean => wired.node.readSysctl(CLOSE_WAIT) === "3600";
      if (mode.daemon !== undefined) await until(isRaised, "the daemon has raised the setting");
      assert.equal(inventory().isDaemonRunning, mode.daemon !== undefined);
      await policyd.kill();

      assert.equal(inventory().isDaemonRunning, false);
      const { pods: left } = cleanUp();
      assert.equal(left.length, 3, left.join());
      assert.ok(existsSync(executable()));
      const detaching = listed("zz-drawbridge-detach.conflist");
      const places = { ipam: ipamOf(), runDir: place.stateDirectory, bridge: "cni0" };
      for (const [verb, code] of [
        ["ADD", 11],
        ["STATUS", 50],
      ] as const) {
        const { error } =
          verb === "ADD"
            ? call(verb, lab.pod("new"), { ...detaching, ...places })
            : networkStatus(wired, detaching, executable());
        assert.equal(error?.code, code, verb);
        assert.match(error?.msg ?? "", /uninstalled.*install/);
      }
      // Pod a is deleted by the present list, as by containerd, and b by that of its ADD, as by CRI-O; c loses its
      // namespace without a DEL.
      assert.deepEqual(call("DEL", a, { ...detaching, ...places }).error, undefined);
      assert.deepEqual(call("DEL", b, second).error, undefined);
      lab.remove(c);
      await until(() => !wired.node.links().some(({ name }) => name.startsWith("dbv")), "the last link is gone");
      // Another plugin may have had a network of that name.
      const shared = `${place.dataDirectory}/second`;
      if (mode.daemon === undefined) writeFileSync(`${shared}/192.0.2.9`, "x\r\neth0");
      const last = cleanUp();
      assert.deepEqual(last.pods, []);
      assert.deepEqual(existsSync(shared), mode.daemon === undefined);
      rmSync(shared, { recursive: true, force: true });
      assertRestored(before);
      assert.deepEqual(cleanUp().removals, [], "a second time");
    });
  }

  it("UNINSTALL-03: with another add-on's configuration present, runtimes delete by that, and the cleanup leaves only our programs", async () => {
    writeFileSync(`${place.configurationDirectory}/20-another.conflist`, "{}");
    const before = snapshot();
    const [mode] = MODES;
    assert.ok(mode !== undefined);
    await install(mode);
    const a = lab.pod("a");
    const configuration = pluginConfiguration(mode);
    assert.equal(call("ADD", a, configuration).error, undefined);
    await policyd.kill();
    cleanUp();
    const names = readdirSync(place.configurationDirectory);
    assert.deepEqual(names.toSorted(), ["20-another.conflist", "87-podman.conflist.disabled"]);
    assert.deepEqual(call("DEL", a, configuration).error, undefined);
    cleanUp();
    assertRestored(before);
    rmSync(`${place.configurationDirectory}/20-another.conflist`);
  });

  it("UNINSTALL-01: settings that others changed since stay, forwarding stays on, and each is named with the way to change it", async () => {
    const { node } = wired;
    const [forward, forward6] = ["net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"] as const;
    node.writeSysctl(forward, "0");
    node.writeSysctl(forward6, "0");
    const before = snapshot();
    const [mode] = MODES;
    assert.ok(mode !== undefined);
    await install(mode);
    const a = lab.pod("a");
    assert.equal(call("ADD", a, pluginConfiguration(mode)).error, undefined);
    node.writeSysctl(CLOSE_WAIT, "120");
    node.writeSysctl("net/ipv4/conf/all/log_martians", "1");
    await policyd.kill();
    assert.equal(call("DEL", a, pluginConfiguration(mode)).error, undefined);
    const { kept } = cleanUp();
    assert.deepEqual(
      kept.filter(({ what }) => what.startsWith("net.")).map(({ what }) => what),
      [forward, forward6, CLOSE_WAIT].map((key) => key.replaceAll("/", ".")).toSorted(),
    );
    assert.deepEqual(
      [forward, forward6].map((key) => node.readSysctl(key)),
      ["1", "1"],
    );
    // The commands that it names restore these settings, too.
    for (const { why } of kept) {
      const [, assignment] = /sysctl -w (\S+)$/.exec(why) ?? [];
      if (assignment !== undefined) node.exec("sysctl", ["-w", assignment]);
    }
    assertRestored(before, { [CLOSE_WAIT]: "120", "net/ipv4/conf/all/log_martians": "1" });
  });

  it("UNINSTALL-03: a daemon that is installed again takes over, and removes the list for deleting", async () => {
    const [mode] = MODES;
    assert.ok(mode !== undefined);
    await install(mode);
    const a = lab.pod("a");
    assert.equal(call("ADD", a, pluginConfiguration(mode)).error, undefined);
    await policyd.kill();
    cleanUp();
    const list = `${place.configurationDirectory}/zz-drawbridge-detach.conflist`;
    assert.ok(existsSync(list));
    await install(mode);
    await until(() => !existsSync(list), "the list for deleting is gone");
    assert.deepEqual(call("DEL", a, pluginConfiguration(mode)).error, undefined);
    assert.equal(add(wired, a, pluginConfiguration(mode), { executable: executable() }).error, undefined);
  });
});

import { FAMILIES } from "../../../kernel/ip/address.ts";
import assert from "node:assert/strict";
import { systemMachine } from "../../../cli/node/machine/system_machine.ts";
import { directRoutes } from "../../../cli/node/doctor/checks/network.ts";
import { podNetworks } from "../../../cli/node/doctor/checks/pod_networks.ts";
import { diagnose } from "../../../policyd/problems/diagnose.ts";
import type { Check } from "../../../cli/node/doctor/facts.ts";
import { expectation } from "../../../cli/node/doctor/expectation.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import { readConfiguration } from "../../../policyd/configuration/configuration.ts";
import { networkConfiguration } from "../../../policyd/installation/configuration_list.ts";
import type { Flow } from "../../lab/probe/prober.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { requireKernel } from "../../support/privilege.ts";
import { flow, type RoutedNode, RouteLab } from "../../support/routes/route_lab.ts";
import { mkdirSync, writeFileSync } from "node:fs";

/** Routes of other programs by which packets for pods are lost, each with the node whose pods it cuts off. */
const OBSTACLES: readonly {
  readonly name: string;
  readonly family: 4 | 6;
  /** The node whose pods are cut off, by its place in the lab. */
  readonly of: 0 | 1 | 2;
  readonly destination: string;
  readonly way: readonly string[];
}[] = [
  { name: "Calico's blackhole", family: 4, of: 0, destination: "10.244.1.0/26", way: ["proto", "80"] },
  { name: "an unreachable route of IPv6", family: 6, of: 0, destination: "fd00:244:1::/80", way: [] },
  { name: "a prohibiting route", family: 4, of: 1, destination: "10.244.2.0/26", way: [] },
  { name: "a blackhole of IPv6", family: 6, of: 2, destination: "fd00:244:3::/96", way: [] },
  { name: "a route by another device", family: 4, of: 2, destination: "10.244.3.0/25", way: ["dev", "other0"] },
  {
    name: "a route of IPv6 by another device",
    family: 6,
    of: 1,
    destination: "fd00:244:2::2/128",
    way: ["dev", "other0"],
  },
];
const TYPES = ["blackhole", "unreachable", "prohibit", "blackhole", "unicast", "unicast"] as const;

describe("routes of other programs inside of pod CIDRs", function () {
  this.timeout(300_000);
  let on: RouteLab;
  let node: RoutedNode;
  let daemon: DaemonProcess | undefined;

  before(async function () {
    requireKernel(this);
    on = new RouteLab("foreign-routes");
    [node] = on.nodes;
    [daemon] = await on.start();
    const namespace = node.wired.node;
    namespace.exec("ip", ["link", "add", "other0", "type", "veth", "peer", "name", "other1"]);
    for (const link of ["other0", "other1"]) namespace.exec("ip", ["link", "set", link, "up"]);
    await on.untilPodsReachPods();
  });
  after(() => on?.[Symbol.dispose]());

  /** Returns the doctor's findings about routes on the first node. */
  function findings(checks: readonly Check[] = [podNetworks]): readonly string[] {
    const { wired, policyd } = node;
    const place = {
      configurationDirectory: `${on.lab.scratch}/net.d`,
      binaryDirectory: `${on.lab.scratch}/bin`,
      dataDirectory: wired.node.dataDir,
      stateDirectory: wired.node.runDir,
      socket: policyd.socketPath,
      bridge: "cni0",
      flowDirectory: `${on.lab.scratch}/flows`,
      networkNamespace: undefined,
    };
    mkdirSync(place.configurationDirectory, { recursive: true });
    const parts = { bridge: "cni0", socketPath: place.socket, stateDirectory: place.stateDirectory, mtu: 1450 };
    const text = networkConfiguration({ ...parts, ranges: wired.podCidrs });
    writeFileSync(`${place.configurationDirectory}/10-drawbridge.conflist`, text);
    const flags = { nodeName: { value: "node1", where: "test" }, bridge: { value: "cni0", where: "test" } };
    const expected = { ...expectation(readConfiguration(undefined, flags)), trialTables: [] };
    const facts = wired.node.inside(() => systemMachine(on.lab.calls).readFacts(place, expected));
    return diagnose(facts, checks).findings.map(({ severity, what }) => `${severity}: ${what}`);
  }

  for (const [i, { name, family, of, destination, way }] of OBSTACLES.entries()) {
    const whose = of === 0 ? "this node's pod CIDR" : "another node's pod CIDR";
    it(`WAY-01: ${name} inside of ${whose} loses packets, and status and doctor name it until it is gone`, async () => {
      const namespace = node.wired.node;
      const route = [`-${family}`, "route", "add", TYPES[i] ?? "", destination, ...way];
      const cut = on.nodes[of];
      const from = of === 0 ? namespace : node.pod;
      const flows: readonly Flow[] = [flow(from, cut.podAddresses[family])];
      assert.deepEqual(findings(), []);
      await on.untilReached(flows);
      namespace.exec("ip", route);
      const [result] = await on.prober.run(flows, { timeoutMilliseconds: 500 });
      assert.equal(result?.reached, false, "the route cuts off the pods");
      const cidr = cut.wired.podCidrs[family === 4 ? 0 : 1];
      const isNamed = (problem: string): boolean =>
        problem.includes(destination.replace("/128", "")) && problem.includes(`pod CIDR ${formatCidr(cidr)}`);
      await daemon?.statusWhen(({ problems }) => problems.some(isNamed), "the route is named");
      const found = findings();
      assert.ok(
        found.some((one) => one.startsWith("error: ") && isNamed(one)),
        JSON.stringify(found),
      );
      namespace.exec("ip", [`-${family}`, "route", "del", TYPES[i] ?? "", destination]);
      await daemon?.statusWhen(({ problems }) => !problems.some(isNamed), "the route is gone");
      assert.deepEqual(findings(), []);
      await on.untilReached(flows);
    });
  }

  it("WAY-01: a blackhole route to the whole cluster loses no packet, and neither status nor doctor reports it", async () => {
    const namespace = node.wired.node;
    namespace.exec("ip", ["route", "add", "blackhole", "10.244.0.0/16"]);
    namespace.exec("ip", ["-6", "route", "add", "blackhole", "fd00:244::/32"]);
    const [, second, third] = on.nodes;
    await on.untilReached(
      FAMILIES.flatMap((family) => [second, third].map((to) => flow(node.pod, to.podAddresses[family]))),
    );
    assert.deepEqual(findings(), []);
    const status = await daemon?.statusWhen(() => true, "a status");
    assert.deepEqual(status?.problems, []);
    namespace.exec("ip", ["route", "del", "blackhole", "10.244.0.0/16"]);
    namespace.exec("ip", ["-6", "route", "del", "blackhole", "fd00:244::/32"]);
  });

  it("WAY-03: the doctor's probe over direct routes reports a network that drops pods' addresses, and not one that carries them", async () => {
    const [, second] = on.nodes;
    const flows = FAMILIES.map((family) => flow(node.pod, second.podAddresses[family]));
    await on.untilReached(flows);
    // The test asks ten times: answers of which a kernel sends only some in a row would be missing.
    for (let looks = 0; looks < 10; looks++) assert.deepEqual(findings([directRoutes]), []);
    on.router.exec("nft", ["-f", "-"], ANTI_SPOOFING);
    const lost = await on.prober.run(flows, { timeoutMilliseconds: 500 });
    assert.deepEqual(
      lost.map(({ reached }) => reached),
      [false, false],
      "the network drops packets of pods",
    );
    const found = findings([directRoutes]);
    assert.equal(found.length, 2, JSON.stringify(found));
    assert.ok(
      found.every((one) => /^info: .* does not answer by the direct route to .*(10\.244\.2|fd00:244:2)/.test(one)),
    );
    on.router.exec("nft", ["delete", "table", "bridge", "antispoofing"]);
    await on.untilReached(flows);
    assert.deepEqual(findings([directRoutes]), []);
  });
});

/** Rules of a network like a cloud's switch, which passes only addresses that the cloud has given out. */
const ANTI_SPOOFING = `table bridge antispoofing {
  chain forward {
    type filter hook forward priority 0
    ip saddr 10.244.0.0/16 drop
    ip6 saddr fd00:244::/32 drop
  }
}
`;

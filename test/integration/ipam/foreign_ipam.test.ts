import assert from "node:assert/strict";
import process from "node:process";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { add, check, type Configuration, configurationOf, del, pluginAs, podCall } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import type { WiredNode } from "../../lab/topology.ts";
import type { FakeIpam } from "../../support/ipam/fake_ipam.ts";
import { BOTH, ForeignIpamNode } from "../../support/ipam/foreign_ipam_node.ts";
import { until } from "../../support/until.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { addressesOf, nodeState } from "../../support/cni/kernel_state.ts";
import { requirePeer } from "../../support/cni/peer.ts";
import { rawCall } from "../../support/cni/raw_call.ts";

describe("an IPAM plugin of others", function () {
  this.timeout(120_000);
  let lab: Lab;
  let node: ForeignIpamNode;
  let wired: WiredNode;
  let ipam: FakeIpam;
  let executable: string;

  before(function () {
    lab = suiteLab(this, "ipam");
    node = new ForeignIpamNode(lab);
    ({ wired, ipam, executable } = node);
  });
  beforeEach(() => node?.reset());

  it("P16: the IPAM plugin gets exactly the environment and the text of each ADD, CHECK and DEL, and gives the pod its addresses", () => {
    const pod = node.pod("exact");
    // We do not write JSON like this: with spaces, a number beyond 2^53 and an unknown key.
    const text = JSON.stringify(configurationOf(wired, node.changes())).replace(
      /}$/,
      ', "x-unknown" : {"id": 12345678901234567890123, "f": 1.0e2 } }',
    );
    const { environment } = podCall("ADD", wired, pod, node.changes());
    const given = {
      ...environment,
      CNI_PATH: `/nowhere:${ipam.directory}`,
      TRACEPARENT: "00-ab=cd",
      PATH: "/usr/bin:/bin",
    };
    const added = rawCall(wired.node, { ...given, CNI_COMMAND: "ADD" }, text, executable);
    assert.equal(added.exitCode, 0, added.stdout);
    assert.equal(added.stderr, "ADD of fake IPAM\n");
    const result: unknown = JSON.parse(added.stdout);
    assert.deepEqual(addressesOf(pod, "eth0"), ["10.99.0.5/32", "fd00:99::5/128"]);
    assert.partialDeepStrictEqual(result, {
      ips: [
        { interface: 2, address: "10.99.0.5/32", gateway: "10.99.0.1" },
        { interface: 2, address: "fd00:99::5/128", gateway: "fd00:99::1" },
      ],
      dns: BOTH.dns,
    });
    const withPrevious = text.replace(/}$/, `, "prevResult": ${added.stdout.trim()}}`);
    const checked = rawCall(wired.node, { ...given, CNI_COMMAND: "CHECK" }, withPrevious, executable);
    assert.deepEqual(checked, { exitCode: 0, stdout: "", stderr: "CHECK of fake IPAM\n" });
    const removed = rawCall(wired.node, { ...given, CNI_COMMAND: "DEL" }, withPrevious, executable);
    assert.deepEqual(removed, { exitCode: 0, stdout: "", stderr: "DEL of fake IPAM\n" });
    assert.deepEqual(ipam.verbs, ["ADD", "CHECK", "DEL"]);
    for (const { verb, environment: seen, stdin, descriptors, workingDirectory, network } of ipam.calls) {
      assert.equal(stdin, verb === "ADD" ? text : withPrevious);
      assert.deepEqual(seen, { ...given, CNI_COMMAND: verb });
      assert.equal(workingDirectory, process.cwd());
      assert.equal(network, wired.node.exec("readlink", ["/proc/self/ns/net"]).trim());
      const numbers = Object.keys(descriptors).filter((number) => Number(number) < 10);
      assert.deepEqual(
        numbers.sort(),
        ["0", "1", "2", ...(verb === "CHECK" ? [] : ["3"])],
        JSON.stringify(descriptors),
      );
      if (verb !== "CHECK") assert.match(descriptors["3"] ?? "", /\/delegations\/drawbridge\//, "the lock");
    }
    assert.deepEqual(ipam.held, []);
    node.assertNothingLeft(pod);
  });

  const reachable: readonly (readonly [
    what: string,
    ips: readonly object[],
    routes: readonly string[],
    bridge: readonly string[],
  ])[] = [
    ["gateways in its subnet", BOTH.ips, [], ["10.99.0.1/24", "fd00:99::1/64"]],
    ["no gateway", [{ address: "10.99.0.5/24" }, { address: "fd00:99::5/64" }], [], ["10.99.0.1/24", "fd00:99::1/64"]],
    [
      "single addresses without a gateway",
      [{ address: "10.99.0.5/32" }, { address: "fd00:99::5/128" }],
      ["10.99.0.5", "fd00:99::5"],
      [],
    ],
    [
      "a gateway outside of its subnet",
      [
        { address: "10.99.0.5/32", gateway: "10.98.0.1" },
        { address: "fd00:99::5/128", gateway: "fd00:98::1" },
      ],
      ["10.99.0.5", "fd00:99::5"],
      ["10.98.0.1/32", "fd00:98::1/128"],
    ],
    [
      "a link-local gateway",
      [
        { address: "10.99.0.5/24", gateway: "169.254.1.1" },
        { address: "fd00:99::5/64", gateway: "fe80::1" },
      ],
      ["10.99.0.5", "fd00:99::5"],
      [],
    ],
  ];
  for (const [what, ips, routes, bridge] of reachable) {
    it(`IPAM-01: a pod with ${what} reaches the node and another pod, and both reach the pod`, async () => {
      const [pod, other] = [node.pod("given"), node.pod("other")];
      ipam.gives({ cniVersion: "1.0.0", ips });
      const { exitCode, stdout } = node.attach(pod);
      assert.equal(exitCode, 0, stdout);
      assert.deepEqual([...node.hostRoutes].sort(), [...routes].sort());
      const global = addressesOf(wired.node, "cni0");
      assert.deepEqual([...global].sort(), [...bridge].sort());
      // The other pod is in another network on the same bridge, with addresses of host-local.
      assert.equal(add(wired, other, { name: "other" }).exitCode, 0);
      const [four, six] = wired.addresses.map(formatAddress);
      await node.assertReached([
        [wired.node, pod, "10.99.0.5"],
        [wired.node, pod, "fd00:99::5"],
        [pod, wired.node, four ?? ""],
        [pod, wired.node, six ?? ""],
        [other, pod, "10.99.0.5"],
        [other, pod, "fd00:99::5"],
        [pod, other, "10.244.1.2"],
        [pod, other, "fd00:244:1::2"],
      ]);
      const prevResult: unknown = JSON.parse(stdout);
      const checked = check(wired, pod, prevResult, node.changes(), { executable });
      assert.equal(checked.exitCode, 0, checked.stdout);
      assert.equal(del(wired, other, { name: "other" }).exitCode, 0);
      assert.equal(node.detach(pod).exitCode, 0);
      node.assertNothingLeft(pod);
    });
  }

  it("P16: an ADD that fails after the IPAM plugin's ADD calls the plugin's DEL, and one that fails before does not", () => {
    const pod = node.pod("fails");
    const late: readonly (readonly [Configuration, unknown, string])[] = [
      [{ mtu: 1000 }, BOTH, "IPv6 needs 1280"],
      [
        { cniVersion: "0.2.0" },
        { ...BOTH, ips: [{ address: "10.99.0.5/24" }, { address: "10.99.0.6/24" }] },
        "1 address per family",
      ],
      [{ bridge: "uplink" }, BOTH, "is not a bridge"],
      [{ policyd: { socket: `${lab.scratch}/none.sock`, wait: "20ms" } }, BOTH, "none.sock"],
    ];
    for (const [overrides, result, words] of late) {
      ipam.gives(result);
      const before = ipam.verbs.length;
      const { exitCode, error } = node.attach(pod, overrides);
      assert.equal(exitCode, 1);
      assert.ok(error?.msg.includes(words), error?.msg);
      assert.deepEqual([ipam.verbs.slice(before), ipam.held], [["ADD", "DEL"], []], words);
      node.assertNothingLeft(pod);
    }
    ipam.gives(BOTH);
    assert.equal(node.attach(pod).exitCode, 0);
    const before = ipam.verbs.length;
    assert.equal(node.attach(pod).error?.code, 104);
    assert.deepEqual(
      [ipam.verbs.length, ipam.held.length],
      [before, 1],
      "the pod that is attached keeps its addresses",
    );
    assert.equal(node.detach(pod).exitCode, 0);
    node.assertNothingLeft(pod);
  });

  it("P16: Go's bridge gets, checks and releases its addresses with drawbridge-ipam", function () {
    const bridge = `${requirePeer(this)}/bridge`;
    const pod = node.pod("gobridge");
    pluginAs("drawbridge-ipam", ipam.directory);
    const own = configurationOf(wired)["ipam"];
    assert.ok(typeof own === "object" && own !== null);
    const configuration = configurationOf(wired, { type: "bridge", ipam: { ...own, type: "drawbridge-ipam" } });
    const { environment } = podCall("ADD", wired, pod);
    const call = (verb: string, changes: Configuration = {}): unknown => {
      const given = { ...environment, CNI_PATH: ipam.directory, CNI_COMMAND: verb };
      const text = JSON.stringify({ ...configuration, ...changes });
      const { exitCode, stdout } = rawCall(wired.node, given, text, bridge);
      assert.equal(exitCode, 0, stdout);
      return stdout === "" ? undefined : JSON.parse(stdout);
    };
    const prevResult = call("ADD");
    assert.deepEqual(addressesOf(pod, "eth0"), ["10.244.1.2/24", "fd00:244:1::2/64"]);
    call("CHECK", { prevResult });
    call("DEL", { prevResult });
    assert.deepEqual(nodeState(wired.node).reservations, []);
  });

  it("IPAM-05 ENDED-01: ADD refuses an address that another pod of the network has and releases it at the IPAM plugin, and takes it once that pod has ended", async () => {
    const [first, second] = [node.pod("first"), node.pod("second")];
    assert.equal(node.attach(first).exitCode, 0);
    const { error } = node.attach(second);
    assert.equal(error?.code, 103);
    assert.match(error?.msg ?? "", new RegExp(`10\\.99\\.0\\.5 is held by "${first.containerId}"`));
    assert.deepEqual(ipam.verbs, ["ADD", "ADD", "DEL"]);
    assert.equal(ipam.held.length, 1);
    assert.deepEqual(addressesOf(first, "eth0"), ["10.99.0.5/32", "fd00:99::5/128"]);
    assert.equal(node.detach(second).exitCode, 0);
    await node.assertReached([
      [wired.node, first, "10.99.0.5"],
      [wired.node, first, "fd00:99::5"],
    ]);
    let held = first;
    for (const taking of [{}, { name: "other" }]) {
      lab.remove(held);
      await until(() => nodeState(wired.node).podLinks.length === 0, "the kernel has removed the link", 20_000);
      assert.equal(node.attach(second, taking).exitCode, 0);
      assert.equal(node.detach(held).exitCode, 0);
      assert.equal(node.detach(second, taking).exitCode, 0);
      assert.deepEqual(ipam.held, []);
      node.assertNothingLeft(second);
      held = node.pod("third");
      if (!("name" in taking)) assert.equal(node.attach(held).exitCode, 0);
    }
  });

  it("IPAM-05: no pod gets an address that a pod of another network, IPAM plugin or store on the bridge has", () => {
    const foreign = node.changes();
    const dataDir = wired.node.dataDir;
    const ipv4Only = { ranges: [[{ subnet: "10.99.0.0/24", rangeStart: "10.99.0.5" }]] };
    const own = { ipam: { type: "host-local", dataDir, ...ipv4Only } };
    const moved = { ipam: { ...own.ipam, dataDir: `${dataDir}/moved` } };
    const renamed = { name: "renamed" };
    const rows: readonly (readonly [first: Configuration, second: Configuration, given: string | number])[] = [
      [own, { ...own, ...renamed }, "10.99.0.6/32"],
      [own, { ...own, ...renamed, runtimeConfig: { ips: ["10.99.0.5"] } }, 103],
      [own, moved, "10.99.0.6/32"],
      [own, foreign, 103],
      [own, { ...foreign, ...renamed }, 103],
      [foreign, own, "10.99.0.6/32"],
      [foreign, { ...own, ...renamed }, "10.99.0.6/32"],
      [foreign, { ...foreign, ...renamed }, 103],
    ];
    for (const [index, [before, after, given]] of rows.entries()) {
      node.reset();
      const [first, second] = [node.pod("first"), node.pod("second")];
      assert.equal(node.attach(first, before).exitCode, 0);
      const { exitCode, error, stdout } = node.attach(second, after);
      assert.equal(exitCode === 0 ? addressesOf(second, "eth0")[0] : error?.code, given, `row ${index}: ${stdout}`);
      for (const [pod, changes] of [
        [second, after],
        [first, before],
      ] as const)
        assert.equal(node.detach(pod, changes).exitCode, 0);
      node.assertNothingLeft(second);
    }
    const entry = ["10.99.0.5", "lladdr", "02:00:00:00:00:01", "dev", "cni0", "nud", "permanent"];
    wired.node.exec("ip", ["neighbour", "replace", ...entry]);
    const pod = node.pod("free");
    assert.equal(node.attach(pod).exitCode, 0, "an entry without a pod does not count");
    assert.equal(node.detach(pod).exitCode, 0);
  });

  it("IPAM-05: ADD refuses an address that the bridge has", () => {
    const [first, second] = [node.pod("holds"), node.pod("wants")];
    assert.equal(node.attach(first).exitCode, 0);
    ipam.gives({ ips: [{ address: "10.99.0.1/24", gateway: "10.99.0.7" }] });
    const { error } = node.attach(second);
    assert.equal(error?.code, 101);
    assert.match(error?.msg ?? "", /has the address 10\.99\.0\.1\/24/);
    assert.equal(node.detach(first).exitCode, 0);
  });
});

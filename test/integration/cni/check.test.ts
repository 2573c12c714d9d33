import assert from "node:assert/strict";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { add, type CallOutcome, check, type Configuration, del, pluginAs } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { everything } from "../../support/host_ports/published.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { testLab } from "../../support/suite_lab.ts";
import { assertQuiet, hostInterfaceOf, podResult } from "../../support/cni/add_result.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";

/** An attached pod, with everything of it that a test may break. */
interface Attached {
  readonly pod: LabPod;
  readonly host: string;
  readonly result: Configuration;
}

/** One way in which an attachment can break. */
interface Breakage {
  readonly what: string;
  readonly breakIt: (attached: Attached, wired: WiredNode) => void;
  /** The expected message. */
  readonly says: RegExp;
}

const inPod =
  (...args: readonly string[]) =>
  ({ pod }: Attached): void =>
    void pod.exec("ip", args);

const onNode =
  (args: (attached: Attached) => readonly string[]) =>
  (attached: Attached, { node }: WiredNode): void =>
    void node.exec("ip", args(attached));

function eachFile(directory: string, pattern: RegExp, action: (path: string) => void): void {
  const names = readdirSync(directory).filter((name) => pattern.test(name));
  assert.ok(names.length > 0, `nothing in ${directory} matches ${pattern}`);
  for (const name of names) action(`${directory}/${name}`);
}

const breakages: readonly Breakage[] = [
  {
    what: "an IPv4 address removed",
    breakIt: inPod("-4", "addr", "flush", "dev", "eth0"),
    says: /^address 10\.244\.1\.\d+ is missing on interface eth0 in the pod/,
  },
  {
    what: "an IPv6 address removed",
    breakIt: inPod("-6", "addr", "flush", "dev", "eth0", "scope", "global"),
    says: /^address fd00:244:1::\w+ is missing on interface eth0 in the pod/,
  },
  {
    what: "the IPv4 default route removed",
    breakIt: inPod("-4", "route", "del", "default"),
    says: /^route 0\.0\.0\.0\/0 by 10\.244\.1\.1 is missing in the pod$/,
  },
  {
    what: "the IPv6 default route removed",
    breakIt: inPod("-6", "route", "del", "default"),
    says: /^route ::\/0 by fd00:244:1::1 is missing in the pod$/,
  },
  {
    what: "the default route led elsewhere",
    breakIt: inPod("-4", "route", "replace", "default", "via", "10.244.1.9", "dev", "eth0", "onlink"),
    says: /^route 0\.0\.0\.0\/0 by 10\.244\.1\.1 is missing in the pod$/,
  },
  {
    what: "the pod's interface down",
    breakIt: inPod("link", "set", "eth0", "down"),
    says: /^interface eth0 is down in the pod/,
  },
  {
    what: "the pod's MAC address changed",
    breakIt: inPod("link", "set", "eth0", "address", "02:00:00:00:00:07"),
    says: /^interface eth0 in the pod has MAC address 02:00:00:00:00:07; expected 0a:58:/,
  },
  { what: "lo down in the pod", breakIt: inPod("link", "set", "lo", "down"), says: /^interface lo is down in the pod/ },
  {
    what: "another interface in the place of the pod's",
    breakIt: ({ pod }) => {
      pod.exec("ip", ["link", "set", "eth0", "name", "old"]);
      pod.exec("ip", ["link", "add", "eth0", "type", "veth", "peer", "name", "x"]);
    },
    says: /interface eth0 in the pod is not the peer of dbv/,
  },
  {
    what: "the veth removed",
    breakIt: onNode(({ host }) => ["link", "del", host]),
    says: /^host interface dbv\w+ is missing; interface eth0 is missing in the pod$/,
  },
  {
    what: "the veth detached from the bridge",
    breakIt: onNode(({ host }) => ["link", "set", host, "nomaster"]),
    says: /^host interface dbv\w+ is not a port of bridge cni0$/,
  },
  {
    what: "the host interface down",
    breakIt: onNode(({ host }) => ["link", "set", host, "down"]),
    says: /^host interface dbv\w+ is down$/,
  },
  {
    what: "the host interface's MAC address changed",
    breakIt: onNode(({ host }) => ["link", "set", host, "address", "02:00:00:00:00:07"]),
    says: /^host interface dbv\w+ has MAC address 02:00:00:00:00:07; expected ae:/,
  },
  {
    what: "hairpin off",
    breakIt: onNode(({ host }) => ["link", "set", host, "type", "bridge_slave", "hairpin", "off"]),
    says: /^hairpin mode of dbv\w+ is off; expected on by hairpinMode$/,
  },
  {
    what: "the port blocked",
    breakIt: onNode(({ host }) => ["link", "set", host, "type", "bridge_slave", "state", "1"]),
    says: /^bridge cni0 takes no packets of dbv\w+ \(bridge link set dev dbv\w+ state 3\)$/,
  },
  { what: "the bridge down", breakIt: onNode(() => ["link", "set", "cni0", "down"]), says: /^bridge cni0 is down/ },
  {
    what: "the gateway missing on the bridge",
    breakIt: onNode(() => ["addr", "del", "10.244.1.1/24", "dev", "cni0"]),
    says: /^address 10\.244\.1\.1, the pod's gateway, is missing on bridge cni0$/,
  },
  { what: "the bridge missing", breakIt: onNode(() => ["link", "del", "cni0"]), says: /^bridge cni0 is missing$/ },
  {
    what: "something else in the bridge's place",
    breakIt: (_, wired) => {
      wired.node.exec("ip", ["link", "del", "cni0"]);
      wired.node.exec("ip", ["link", "add", "cni0", "type", "veth", "peer", "name", "other-end"]);
    },
    says: /^cni0 is not a bridge \(kind veth\)/,
  },
  {
    what: "a reservation missing",
    breakIt: (_, { node }) => eachFile(`${node.dataDir}/drawbridge`, /^10\./, (path) => rmSync(path)),
    says: /^reservation of 10\.244\.1\.\d+ is missing or another container's in /,
  },
  {
    what: "a reservation of another container",
    breakIt: (_, { node }) =>
      eachFile(`${node.dataDir}/drawbridge`, /^fd00/, (path) => {
        // The reservations of one claim are one file by several names.
        rmSync(path);
        writeFileSync(path, "other\r\neth0");
      }),
    says: /^reservation of fd00:244:1::\w+ is missing or another container's in /,
  },
  {
    what: "the attachment record missing",
    breakIt: (_, { node }) => eachFile(`${node.runDir}/attachments/drawbridge`, /json$/, (path) => rmSync(path)),
    says: /^its attachment record is missing in /,
  },
  {
    what: "the attachment record torn",
    breakIt: (_, { node }) =>
      eachFile(`${node.runDir}/attachments/drawbridge`, /json$/, (path) => writeFileSync(path, '{"version":1,')),
    says: /^the attachment record .* cannot be read/,
  },
];

describe("CHECK", function () {
  this.timeout(120_000);
  let lab: Lab;
  let wired: WiredNode;

  beforeEach(function () {
    lab = testLab(this, "check");
    wired = twoNodes(lab).node1;
  });

  function attach(name: string, overrides: Configuration): Attached {
    const pod = lab.pod(name);
    const outcome = add(wired, pod, overrides);
    const { result } = outcome;
    assert.ok(result !== undefined, outcome.stdout);
    return { pod, host: hostInterfaceOf(podResult(outcome)), result };
  }

  function assertBroken({ exitCode, error, stderr }: CallOutcome, says: RegExp, what: string): void {
    assert.deepEqual([exitCode, error?.code, stderr], [1, 107, ""], `${what}: ${error?.msg}`);
    assert.match(error?.msg ?? "", says, `${what}: ${error?.msg}`);
  }

  it("B15: CHECK succeeds right after ADD and reports each single breakage, in a process of its own", () => {
    for (const [index, { what, breakIt, says }] of breakages.entries()) {
      const attached = attach(`p${index}`, {});
      assertQuiet(check(wired, attached.pod, attached.result), `before ${what}`);
      breakIt(attached, wired);
      const before = nodeState(wired.node);
      assertBroken(check(wired, attached.pod, attached.result), says, what);
      assert.deepEqual(nodeState(wired.node), before, "CHECK changes nothing");
      if (what === "something else in the bridge's place") wired.node.exec("ip", ["link", "del", "cni0"]);
      del(wired, attached.pod);
      // The test removed or broke these reservations, so no DEL finds them.
      const store = `${wired.node.dataDir}/drawbridge`;
      for (const name of readdirSync(store)) if (/^(10\.|fd00)/.test(name)) rmSync(`${store}/${name}`);
    }
  });

  it("B15: CHECK reports each nftables element, rule and table of the plugin that is missing", () => {
    const cases = [
      [
        "flush set inet drawbridge-cni masqueraded4",
        /^nftables element 10\.244\.1\.\d+ is missing in set masqueraded4 of table inet drawbridge-cni$/,
      ],
      [
        "flush map inet drawbridge-cni ports6",
        /^nftables element tcp \. \d+ is missing in set ports6 of table inet drawbridge-cni/,
      ],
      [
        "flush set bridge drawbridge-cni podmac",
        /^nftables element .* is missing in set \w+ of table bridge drawbridge-cni$/,
      ],
      [
        "flush chain inet drawbridge-cni postrouting",
        /^chain postrouting of nftables table inet drawbridge-cni has no rules$/,
      ],
      ["delete table bridge drawbridge-cni", /^nftables table bridge drawbridge-cni is missing$/],
      [
        "flush ruleset",
        /^nftables table inet drawbridge-cni is missing; nftables table bridge drawbridge-cni is missing$/,
      ],
    ] as const;
    for (const [index, [command, says]] of cases.entries()) {
      wired.node.exec("nft", ["flush", "ruleset"]);
      const { pod, result } = attach(`p${index}`, everything);
      assertQuiet(check(wired, pod, result, everything), command);
      const sets = wired.node.exec("nft", ["list", "sets", "bridge"]);
      const [, macs = ""] = /set (\w+) \{/.exec(sets) ?? [];
      wired.node.exec("nft", command.replace("podmac", macs).split(" "));
      assertBroken(check(wired, pod, result, everything), says, command);
      assert.equal(del(wired, pod, everything).exitCode, 0);
    }
  });

  it("B16: CHECK tolerates a MAC address, an MTU, addresses, routes and interfaces that later plugins of the chain changed or added", () => {
    const { pod, result } = attach("p", {});
    const chained = structuredClone(result) as {
      interfaces: Record<string, unknown>[];
      ips: unknown[];
      routes: unknown[];
    };
    const inThePod = chained.interfaces.find(({ name }) => name === "eth0");
    assert.ok(inThePod !== undefined);
    pod.exec("ip", ["link", "set", "eth0", "address", "02:00:00:00:00:07", "mtu", "1300"]);
    // The tuning plugin reports its changes like this.
    Object.assign(inThePod, { mac: "02:00:00:00:00:07".toUpperCase(), mtu: 1300 });
    assertBroken(check(wired, pod, result), /has MAC address 02:00:00:00:00:07; expected 0a:58:/, "not in the result");
    assertQuiet(check(wired, pod, chained), "tuning");
    pod.exec("ip", ["addr", "add", "192.0.2.77/32", "dev", "eth0"]);
    pod.exec("ip", ["link", "add", "net1", "type", "veth", "peer", "name", "other-end"]);
    pod.exec("ip", ["route", "add", "198.51.100.0/24", "via", "10.244.1.1", "dev", "eth0", "onlink"]);
    chained.interfaces.push({ name: "net1", mac: "02:00:00:00:00:08", sandbox: pod.path });
    chained.ips.push({ interface: 3, address: "203.0.113.9/24", gateway: "203.0.113.1" });
    // ADD also accepts empty texts in a result of other plugins.
    chained.ips.push({ interface: 3, address: "203.0.113.10/24", gateway: "" });
    chained.routes.push({ dst: "203.0.113.64/26", gw: "" });
    chained.routes.push({ dst: "203.0.113.128/25", gw: "203.0.113.1" }, { dst: "198.51.100.0/24", gw: "10.244.1.1" });
    assertQuiet(check(wired, pod, chained), "additions");
    const [, ...fewer] = chained.routes;
    pod.exec("ip", ["-4", "route", "del", "default"]);
    assertQuiet(check(wired, pod, { ...chained, routes: fewer }), "a route that a later plugin has taken away");
    // A chained sbr does this and does not report it in the result.
    pod.exec("ip", ["route", "add", "default", "via", "10.244.1.1", "dev", "eth0", "onlink", "table", "100"]);
    assertQuiet(check(wired, pod, chained), "a route in another table");
  });

  it("B15: CHECK succeeds for a second interface of a pod that already has a default route", () => {
    const { pod, result } = attach("p", {});
    const second = add(wired, pod, { name: "second" }, { ifname: "net1" });
    assert.equal(second.exitCode, 0, second.stdout);
    assertQuiet(check(wired, pod, second.result, { name: "second" }, { ifname: "net1" }), "net1");
    assertQuiet(check(wired, pod, result), "eth0");
  });

  it("B15: CHECK refuses a missing or malformed result or one of another attachment with code 7, and a namespace that is gone with 8", () => {
    const a = attach("a", {});
    const b = attach("b", {});
    for (const [prevResult, says] of [
      [undefined, /^prevResult: missing; expected/],
      [b.result, /^prevResult: has none of this attachment's addresses \(10\.244\.1\.\d+\/32, fd00/],
      [{}, /^prevResult: has none/],
      [{ ips: [{ address: "no address" }] }, /^prevResult\.ips\[0\]\.address: /],
      [{ ips: "10.244.1.2" }, /^prevResult\.ips: /],
      ["x", /^prevResult: /],
    ] as const) {
      const { exitCode, error } = check(wired, a.pod, prevResult);
      assert.deepEqual([exitCode, error?.code], [1, 7], JSON.stringify(prevResult));
      assert.match(error?.msg ?? "", says);
    }
    assert.equal(check(wired, a.pod, a.result, {}, { netns: "/run/netns/gone" }).error?.code, 8);
    assertBroken(
      check(wired, a.pod, a.result, {}, { netns: b.pod.path }),
      /^it was made in another network namespace/,
      "b's",
    );
  });

  it("B15: CHECK with policyd succeeds right after ADD, also for a closed pod without a daemon, and reports elements that stay missing", async () => {
    const policyd = new PolicydNode(lab, wired);
    const closed = policyd.overridesWith({ onUnavailable: "closed", wait: "200ms" });
    const daemon = await policyd.start();
    try {
      const { pod, result } = attach("p", policyd.overrides);
      assertQuiet(check(wired, pod, result, policyd.overrides), "right after ADD");
      wired.node.exec("nft", ["flush", "set", "bridge", "drawbridge", "podmac"]);
      assertQuiet(check(wired, pod, result, policyd.overrides), "the daemon restores it meanwhile");
      await daemon.kill("SIGKILL");
      assertQuiet(check(wired, pod, result, policyd.overrides), "without the daemon what is in force stays");
      const waiting = attach("waiting", closed);
      assertQuiet(check(wired, waiting.pod, waiting.result, closed), "closed");
      for (const set of [
        "bridge drawbridge podmac",
        "inet drawbridge-policy known4",
        "inet drawbridge-policy known6",
        "inet drawbridge-policy ingress4",
        "inet drawbridge-policy egress6",
      ]) {
        wired.node.exec("nft", ["flush", /gress/.test(set) ? "map" : "set", ...set.split(" ")]);
      }
      assertBroken(
        check(wired, pod, result, policyd.overrides),
        /^nftables element "?dbv\w+"? \. 0a:58:\S+ is missing in set podmac of table bridge drawbridge; nftables element 10\.244\.1\.\d+ is missing in set known4 of table inet drawbridge-policy; nftables element fd00:\S+ is missing in set known6 of table inet drawbridge-policy; nftables element fd00:\S+ is missing in (?:set|map) egress6 of table inet drawbridge-policy; nftables element 10\.244\.1\.\d+ is missing in (?:set|map) ingress4/,
        "not restored",
      );
    } finally {
      await policyd.kill();
    }
  });

  it("B15: CHECK of the plugin loopback checks lo, and CHECK of drawbridge-ipam checks the reservations", () => {
    const pod = lab.pod("p");
    const lo = { name: "lo", type: "loopback" };
    const loopback = { executable: pluginAs("loopback", lab.scratch), ifname: "lo" };
    const outcome = add(wired, pod, lo, loopback);
    assertQuiet(check(wired, pod, outcome.result, lo, loopback), "up");
    pod.exec("ip", ["link", "set", "lo", "down"]);
    assertBroken(check(wired, pod, outcome.result, lo, loopback), /^interface lo is down in /, "down");
    const ipam = { executable: pluginAs("drawbridge-ipam", lab.scratch) };
    assert.equal(check(wired, pod, {}, {}, ipam).error?.code, 103);
    assert.equal(add(wired, pod, {}, ipam).exitCode, 0);
    assertQuiet(check(wired, pod, {}, {}, ipam), "reserved");
    assert.equal(del(wired, pod, {}, ipam).exitCode, 0);
    assert.match(check(wired, pod, {}, {}, ipam).error?.msg ?? "", /^Failed to find address added by container /);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });
});

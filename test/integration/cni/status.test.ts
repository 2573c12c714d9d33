import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import {
  add,
  type CallOutcome,
  type Configuration,
  configurationOf,
  del,
  networkStatus,
  pluginAs,
} from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { labelled, networkPolicy } from "../../support/policy/manifest.ts";
import { testLab } from "../../support/suite_lab.ts";
import { assertQuiet } from "../../support/cni/add_result.ts";

describe("STATUS", function () {
  this.timeout(120_000);
  let lab: Lab;
  let wired: WiredNode;

  beforeEach(function () {
    lab = testLab(this, "status");
    wired = twoNodes(lab).node1;
  });

  function assertFails({ exitCode, error, stderr }: CallOutcome, code: number, says: RegExp): void {
    assert.deepEqual([exitCode, error?.code, stderr], [1, code, ""], error?.msg);
    assert.match(error?.msg ?? "", says);
  }

  const failureFile = (kind: string): string => `${wired.node.runDir}/failures/${kind}/drawbridge.json`;

  /** Moves the beginning and the last occurrence of a noted failure back by these numbers of seconds. */
  function age(kind: string, began: number, seen = 0): void {
    const failure = JSON.parse(readFileSync(failureFile(kind), "utf8")) as { since: number; last: number };
    const aged = { ...failure, since: failure.since - began, last: failure.last - seen };
    writeFileSync(failureFile(kind), JSON.stringify(aged));
  }

  /** Returns a configuration with which every ADD fails, since the store's directory is a file. */
  function breakStore(): Configuration {
    writeFileSync(`${lab.scratch}/file`, "");
    return { ipam: { ...(configurationOf(wired)["ipam"] as object), dataDir: `${lab.scratch}/file` } };
  }

  it("STATUS-01: fails with code 50 once every ADD has failed for a minute, and no longer when one succeeds", () => {
    assertQuiet(networkStatus(wired), "a fresh node");
    const broken = breakStore();
    assert.equal(add(wired, lab.pod("a"), broken).error?.code, 5);
    assertQuiet(networkStatus(wired), "right after the first failure");
    age("attach", 59);
    assertQuiet(networkStatus(wired), "before the minute is over");
    age("attach", 2);
    assertFails(
      networkStatus(wired),
      50,
      /^no pod could be attached to network drawbridge for 6\d s: cannot .*\(ENOTDIR\)/,
    );
    assert.equal(add(wired, lab.pod("b"), broken).error?.code, 5);
    assertFails(networkStatus(wired), 50, /^no pod could be attached/);
    age("attach", 200, 121);
    assertQuiet(networkStatus(wired), "nobody has tried for two minutes");
    assert.equal(add(wired, lab.pod("c"), broken).error?.code, 5);
    assertFails(networkStatus(wired), 50, /^no pod could be attached/);
    assert.equal(add(wired, lab.pod("d")).exitCode, 0);
    assert.ok(!existsSync(failureFile("attach")));
    assertQuiet(networkStatus(wired), "after a success");
  });

  it("STATUS-01: succeeds after a single failed ADD, however long no other follows, and fails once an ADD has failed a minute later", () => {
    const broken = breakStore();
    assert.equal(add(wired, lab.pod("a"), broken).error?.code, 5);
    for (const seconds of [1, 60, 58]) {
      age("attach", seconds, seconds);
      assertQuiet(networkStatus(wired), "one ADD failed, and no other was tried");
    }
    assert.equal(add(wired, lab.pod("b"), broken).error?.code, 5);
    assertFails(networkStatus(wired), 50, /^no pod could be attached to network drawbridge for 1\d\d s/);
  });

  it("STATUS-01: a failure that an ADD's own options may explain does not count, nor does one of another boot or a torn file", () => {
    const wishes: readonly Configuration[] = [
      { runtimeConfig: { mac: "02:00:00:00:00:09" } },
      { runtimeConfig: { bandwidth: { ingressRate: 1_000_000, ingressBurst: 1_000_000 } } },
      { runtimeConfig: { portMappings: [{ hostPort: 8080, containerPort: 80, protocol: "tcp" }] } },
    ];
    const broken = breakStore();
    for (const [index, wish] of wishes.entries()) {
      assert.equal(add(wired, lab.pod(`w${index}`), { ...broken, ...wish }).error?.code, 5);
    }
    assert.ok(!existsSync(failureFile("attach")));
    assert.equal(add(wired, lab.pod("a"), broken).error?.code, 5);
    age("attach", 1000);
    const noted = readFileSync(failureFile("attach"), "utf8");
    assertFails(networkStatus(wired), 50, /./);
    for (const text of [
      noted.slice(0, -1),
      noted.slice(0, 20),
      "",
      "null",
      "[]",
      noted.replace(/"bootId":"[^"]*"/, '"bootId":"another"'),
      noted.replace(/"version":1/, '"version":2'),
      noted.replace(/"since":-?[\d.]+/, '"since":1e300'),
      noted.replace(/"last":-?[\d.]+/, '"last":1e300'),
      `${noted.slice(0, -1)}${" ".repeat(10_000)}}`,
    ]) {
      writeFileSync(failureFile("attach"), text);
      assertQuiet(networkStatus(wired), text.slice(0, 100));
      assertQuiet(networkStatus(wired), text.slice(0, 100));
    }
    rmSync(failureFile("attach"));
    mkdirSync(failureFile("attach"));
    assertQuiet(networkStatus(wired), "a directory");
    assert.equal(add(wired, lab.pod("b"), broken).error?.code, 5);
    assert.equal(add(wired, lab.pod("c")).exitCode, 0, "an obstacle to the note fails no ADD");
  });

  it("STATUS-01: the failed ADD of a Pod that the API server does not have is not noted as a failure of the node, and one without a daemon is", async () => {
    const policyd = new PolicydNode(lab, wired, "1s");
    policyd.put(
      "policy.json",
      JSON.stringify(networkPolicy("default", { podSelector: labelled({ app: "web" }) }, "x")),
    );
    await policyd.start();
    const { error } = add(wired, lab.pod("a"), policyd.overrides);
    assert.deepEqual([error?.code, error?.details], [11, "ERR_POD_UNKNOWN"]);
    assert.equal(error?.msg.match(/does not know its Pod/g)?.length, 1, error?.msg);
    assert.ok(!existsSync(failureFile("attach")));
    await policyd.kill();
    assert.equal(add(wired, lab.pod("b"), policyd.overrides).error?.code, 11);
    assert.ok(existsSync(failureFile("attach")));
  });

  it("STATUS-01 I8: STATUS succeeds while a range has no free address, and after one was given back", () => {
    const tiny = {
      ipam: { type: "host-local", dataDir: wired.node.dataDir, ranges: [[{ subnet: "10.244.1.0/30" }]] },
    };
    const holder = lab.pod("holder");
    assert.equal(add(wired, holder, tiny).exitCode, 0);
    for (const name of ["a", "b"]) {
      const { error } = add(wired, lab.pod(name), tiny);
      assert.equal(error?.code, 102);
      assert.match(error?.msg ?? "", /no IP addresses available in range set/);
    }
    assert.ok(!existsSync(failureFile("attach")));
    assertQuiet(networkStatus(wired, tiny), "full");
    assertQuiet(networkStatus(wired, tiny, pluginAs("drawbridge-ipam", lab.scratch)), "the IPAM plugin by itself");
    assert.equal(del(wired, holder, tiny).exitCode, 0);
    assert.equal(add(wired, lab.pod("c"), tiny).exitCode, 0);
    assertQuiet(networkStatus(wired, tiny), "again");
  });

  it("STATUS-01: a reason why every ADD would fail is found without an ADD, and forgotten as soon as it has gone", async () => {
    wired.node.exec("ip", ["link", "add", "taken", "type", "veth", "peer", "name", "other-end"]);
    const policyd = new PolicydNode(lab, wired);
    for (const [what, overrides, says] of [
      ["another device under the name of the bridge", { bridge: "taken" }, /taken is not a bridge \(kind veth\)$/],
      ["a configuration that ADD refuses", { vlan: 7 }, /vlan: 7 is not supported/],
      ["a daemon that is away, where pods must not wait closed", policyd.overridesWith({}), /policyd\.sock/],
    ] as const) {
      assertQuiet(networkStatus(wired, overrides), `${what}, at first`);
      age("node", 61);
      assertFails(networkStatus(wired, overrides), 50, says);
      assertQuiet(networkStatus(wired), `without ${what}`);
      assertQuiet(networkStatus(wired, overrides), `${what}, for a moment again`);
      assertQuiet(networkStatus(wired), "well");
    }
    assertQuiet(
      networkStatus(wired, policyd.overridesWith({ onUnavailable: "closed" })),
      "a daemon that is away, closed",
    );
    try {
      await policyd.start();
      assertQuiet(networkStatus(wired, policyd.overrides), "with the daemon");
      assert.ok(!existsSync(failureFile("node")));
    } finally {
      await policyd.kill();
    }
  });

  it("STATUS-01: fails at once where nothing can be written beside the notes, since ADDs cannot write there either", () => {
    assertQuiet(networkStatus(wired), "at first");
    rmSync(`${wired.node.runDir}/failures`, { recursive: true });
    writeFileSync(`${wired.node.runDir}/failures`, "");
    assertFails(networkStatus(wired), 50, /^no pod can be attached to network drawbridge: .*failures: already exists/);
    rmSync(`${wired.node.runDir}/failures`);
    assertQuiet(networkStatus(wired), "again");
  });

  it("STATUS-01: STATUS fails with code 51 only once running pods have had no bridge for a minute, and succeeds again after a repair and without pods", () => {
    const pods = [lab.pod("a"), lab.pod("b")];
    const results = pods.map((pod) => add(wired, pod).result as { interfaces: { name: string }[] });
    const [first = "", second = ""] = results.map(({ interfaces }) => interfaces[1]?.name ?? "");
    assertQuiet(networkStatus(wired), "with pods");
    for (const [breaks, repairs, says] of [
      [["link set cni0 down"], ["link set cni0 up"], /bridge cni0 is down$/],
      [
        [`link set ${first} nomaster`, `link set ${second} nomaster`],
        [`link set ${first} master cni0`],
        /no pod's interface is a port of bridge cni0$/,
      ],
      [["link del cni0"], [], /bridge cni0 is missing$/],
    ] as const) {
      for (const command of breaks) wired.node.exec("ip", command.split(" "));
      assertQuiet(networkStatus(wired), `${breaks.join()}, at first`);
      age("traffic", 61);
      assertFails(networkStatus(wired), 51, says);
      for (const command of repairs) wired.node.exec("ip", command.split(" "));
      if (repairs.length > 0) assertQuiet(networkStatus(wired), repairs.join());
    }
    for (const pod of pods) assert.equal(del(wired, pod).exitCode, 0);
    assertQuiet(networkStatus(wired), "without pods nobody suffers");
  });

  it("STATUS-05: a daemon that starts reports ADDs that failed before because no daemon answered", async () => {
    const policyd = new PolicydNode(lab, wired);
    assert.notEqual(add(wired, lab.pod("a"), policyd.overridesWith({ wait: "100ms" })).exitCode, 0);
    try {
      const daemon = await policyd.start();
      const { problems } = await daemon.statusWhen(({ problemCount }) => problemCount > 0, "reported", 30);
      assert.match(
        problems[0] ?? "",
        /^attachments: pods cannot be attached to network drawbridge: policyd did not answer/,
      );
      assert.equal(add(wired, lab.pod("b"), policyd.overrides).exitCode, 0);
      await daemon.statusWhen(({ problemCount }) => problemCount === 0, "over", 30);
    } finally {
      await policyd.kill();
    }
  });
});

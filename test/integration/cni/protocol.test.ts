import assert from "node:assert/strict";
import { supportedVersions } from "../../../cni/version.ts";
import { add, configurationOf, del, pluginAs, podCall } from "../../lab/cni.ts";
import { createLab, type Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { requireKernel } from "../../support/privilege.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { rawCall } from "../../support/cni/raw_call.ts";

describe("the executable and the CNI protocol", () => {
  let lab: Lab;
  let wired: WiredNode;

  before(function () {
    requireKernel(this);
    lab = createLab("protocol");
    wired = twoNodes(lab).node1;
  });

  after(() => lab?.destroy());

  const podEnvironment = (changes: Readonly<Record<string, string>> = {}): Record<string, string> => ({
    CNI_COMMAND: "ADD",
    CNI_CONTAINERID: "protocol",
    CNI_NETNS: "/run/netns/no-such-namespace",
    CNI_IFNAME: "eth0",
    CNI_PATH: "/opt/cni/bin",
    ...changes,
  });

  const objectOf = (stdout: string): Record<string, unknown> => {
    const value: unknown = JSON.parse(stdout);
    assert.ok(typeof value === "object" && value !== null);
    return Object.fromEntries(Object.entries(value));
  };

  const conf = (changes: Readonly<Record<string, unknown>> = {}): string =>
    JSON.stringify({ ...configurationOf(wired), ...changes });

  it("P1: VERSION with empty standard input and no other variable lists every version", () => {
    const { exitCode, stdout, stderr } = rawCall(wired.node, { CNI_COMMAND: "VERSION" }, "");
    assert.equal(exitCode, 0);
    assert.deepEqual(JSON.parse(stdout), { cniVersion: "1.1.0", supportedVersions });
    assert.equal(stderr, "");
  });

  it("P2: without CNI_COMMAND the plugin says on stderr what it is, and exits with 0", () => {
    const { exitCode, stdout, stderr } = rawCall(wired.node, {}, "");
    assert.equal(exitCode, 0);
    assert.equal(stdout, "");
    assert.match(stderr, /CNI protocol versions supported: 0\.1\.0, .*1\.1\.0/);
  });

  it("P3: an unknown command is error 4", () => {
    const { exitCode, stdout } = rawCall(wired.node, podEnvironment({ CNI_COMMAND: "EXPLODE" }), conf());
    assert.notEqual(exitCode, 0);
    assert.equal(objectOf(stdout)["code"], 4);
    assert.match(String(objectOf(stdout)["msg"]), /EXPLODE/);
  });

  it("P4: ADD names all missing and empty variables in one error 4", () => {
    for (const names of [["CNI_CONTAINERID"], ["CNI_NETNS"], ["CNI_IFNAME"], ["CNI_NETNS", "CNI_IFNAME"]]) {
      for (const empty of [false, true]) {
        const environment = podEnvironment();
        for (const name of names) {
          if (empty) environment[name] = "";
          else delete environment[name];
        }
        const { exitCode, stdout } = rawCall(wired.node, environment, conf());
        assert.equal(exitCode, 1);
        assert.equal(objectOf(stdout)["code"], 4);
        assert.equal(objectOf(stdout)["msg"], `required env variables [${names.join(",")}] missing`);
      }
    }
  });

  it("P4: CHECK names all missing and empty variables in one error 4", () => {
    const environment = podEnvironment({ CNI_COMMAND: "CHECK", CNI_NETNS: "" });
    delete environment["CNI_IFNAME"];
    const { exitCode, stdout } = rawCall(wired.node, environment, conf());
    assert.equal(exitCode, 1);
    const { code, msg } = objectOf(stdout);
    assert.deepEqual([code, msg], [4, "required env variables [CNI_NETNS,CNI_IFNAME] missing"]);
  });

  it("P8: GC and STATUS of a configuration before 1.1.0 are error 1, and they need no variable (P4)", () => {
    for (const verb of ["GC", "STATUS"]) {
      const environment = { CNI_COMMAND: verb };
      for (const cniVersion of [undefined, "0.1.0", "0.3.1", "0.4.0", "1.0.0"]) {
        const { exitCode, stdout } = rawCall(wired.node, environment, conf({ cniVersion }));
        const { code, msg } = objectOf(stdout);
        assert.deepEqual([exitCode, code, msg], [1, 1, `config version does not allow ${verb}`], cniVersion);
      }
      const input = conf({ "cni.dev/valid-attachments": [] });
      assert.deepEqual(rawCall(wired.node, environment, input), { exitCode: 0, stdout: "", stderr: "" });
      assert.equal(objectOf(rawCall(wired.node, environment, conf({ name: "a%b" })).stdout)["code"], 7);
      assert.equal(objectOf(rawCall(wired.node, environment, "{").stdout)["code"], 6);
    }
  });

  it("P8: CHECK of a configuration before 0.4.0 is error 1", () => {
    for (const cniVersion of ["0.1.0", "0.2.0", "0.3.0", "0.3.1"]) {
      const { exitCode, stdout } = rawCall(wired.node, podEnvironment({ CNI_COMMAND: "CHECK" }), conf({ cniVersion }));
      assert.equal(exitCode, 1);
      const { code, msg } = objectOf(stdout);
      assert.deepEqual([code, msg], [1, "config version does not allow CHECK"]);
    }
  });

  it("P5: DEL works without CNI_NETNS, with an empty one and with a path that is gone, and releases the address", () => {
    const pod = lab.pod("p5");
    for (const netns of [undefined, "", "/run/netns/gone"]) {
      assert.equal(add(wired, pod).exitCode, 0);
      const { environment } = podCall("DEL", wired, pod);
      const { CNI_NETNS: _, ...others } = environment;
      const result = rawCall(
        wired.node,
        { ...others, CNI_COMMAND: "DEL", ...(netns === undefined ? {} : { CNI_NETNS: netns }) },
        conf(),
      );
      assert.deepEqual(result, { exitCode: 0, stdout: "", stderr: "" });
      assert.deepEqual(nodeState(wired.node), nothingHeld);
    }
  });

  it("P6: container ids and interface names that could be paths or are too long are error 4", () => {
    const bad = [
      { CNI_CONTAINERID: "1234-%%%" },
      { CNI_CONTAINERID: "../../etc" },
      { CNI_CONTAINERID: "a/b" },
      { CNI_CONTAINERID: "x".repeat(201) },
      { CNI_IFNAME: "sixteen-letters." },
      { CNI_IFNAME: "." },
      { CNI_IFNAME: ".." },
      { CNI_IFNAME: "a/b" },
      { CNI_IFNAME: "a:b" },
      { CNI_IFNAME: "a b" },
    ];
    for (const changes of bad) {
      const { exitCode, stdout } = rawCall(wired.node, podEnvironment(changes), conf());
      assert.equal(exitCode, 1, JSON.stringify(changes));
      assert.equal(objectOf(stdout)["code"], 4, stdout);
    }
  });

  it("P7: a broken configuration, an invalid name and an unknown version are each refused with their error code", () => {
    const cases: readonly (readonly [stdin: string, codes: readonly number[]])[] = [
      ["", [6]],
      ["{", [6]],
      ["[]", [6]],
      [conf({ name: undefined }), [7]],
      [conf({ name: "" }), [7]],
      [conf({ name: "a%b" }), [7]],
      [conf({ name: "../up" }), [7]],
      [conf({ cniVersion: "foo" }), [1, 6]],
      [conf({ cniVersion: "99.0.0" }), [1]],
    ];
    for (const [stdin, codes] of cases) {
      const { exitCode, stdout } = rawCall(wired.node, podEnvironment(), stdin);
      assert.equal(exitCode, 1);
      assert.ok(codes.includes(Number(objectOf(stdout)["code"])), stdout);
    }
    const { stdout } = rawCall(wired.node, podEnvironment(), conf({ cniVersion: "99.0.0" }));
    assert.match(String(objectOf(stdout)["details"]), /config is "99\.0\.0", plugin supports \["0\.1\.0".*"1\.1\.0"\]/);
  });

  it("P9: without cniVersion the configuration counts as 0.1.0, and the result has that form", () => {
    const pod = lab.pod("p9");
    const { environment } = podCall("ADD", wired, pod);
    for (const cniVersion of [undefined, "", null]) {
      const added = rawCall(wired.node, { ...environment, CNI_COMMAND: "ADD" }, conf({ cniVersion }));
      assert.equal(added.exitCode, 0, added.stdout);
      const result = objectOf(added.stdout);
      assert.deepEqual(Object.keys(result).sort(), ["cniVersion", "dns", "ip4", "ip6"]);
      assert.equal(result["cniVersion"], "0.1.0");
      assert.equal(rawCall(wired.node, { ...environment, CNI_COMMAND: "DEL" }, conf({ cniVersion })).exitCode, 0);
    }
  });

  it("P12: keys count in any letter case, the last of two wins, unknown ones are ignored, and a wrong type is error 7", () => {
    const pod = lab.pod("p12");
    const { environment } = podCall("ADD", wired, pod);
    const call = (verb: string, stdin: string): ReturnType<typeof rawCall> =>
      rawCall(wired.node, { ...environment, CNI_COMMAND: verb }, stdin);
    const shouted = conf({ mtu: undefined }).replace(/}$/, ', "MTU": 1300, "mtu": 1400, "x-unknown": {"mtu": 1}}');
    const added = call("ADD", shouted.replace('"isGateway"', '"ISGATEWAY"'));
    assert.equal(added.exitCode, 0, added.stdout);
    assert.equal(pod.link("eth0").mtu, 1400);
    assert.equal(call("DEL", shouted).exitCode, 0);
    const wrong = call("ADD", conf({ mtu: "1400" }));
    assert.equal(wrong.exitCode, 1);
    assert.deepEqual(
      [objectOf(wrong.stdout)["code"], objectOf(wrong.stdout)["msg"]],
      [7, 'mtu: "1400"; expected number'],
    );
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P13: an unknown pair in CNI_ARGS is error 4 unless IgnoreUnknown is set, and a pair with two = always is", () => {
    const pod = lab.pod("p13");
    const { environment } = podCall("ADD", wired, pod);
    for (const [text, code] of [
      ["A=1", 4],
      ["A=1=2", 4],
      ["IgnoreUnknown=1;A=1=2", 4],
      ["A=1;IgnoreUnknown=0", 4],
      ["A=1;IgnoreUnknown=true", undefined],
      ["IgnoreUnknown=1;A=1", undefined],
    ] as const) {
      const given = { ...environment, CNI_ARGS: text };
      const { exitCode, stdout } = rawCall(wired.node, { ...given, CNI_COMMAND: "ADD" }, conf());
      assert.deepEqual(
        [exitCode, code === undefined ? undefined : objectOf(stdout)["code"]],
        [code === undefined ? 0 : 1, code],
        text,
      );
      assert.equal(rawCall(wired.node, { ...given, CNI_COMMAND: "DEL" }, conf()).exitCode, 0, text);
    }
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P10: a dual-stack ADD succeeds in each version, with that version in the result", () => {
    const pod = lab.pod("p10");
    for (const cniVersion of supportedVersions) {
      const { exitCode, result, stdout } = add(wired, pod, { cniVersion });
      assert.equal(exitCode, 0, stdout);
      assert.equal(result?.["cniVersion"], cniVersion);
      assert.equal(del(wired, pod, { cniVersion }).exitCode, 0);
    }
  });

  it("P14: the node's own namespace as CNI_NETNS is error 8, before anything is made", () => {
    const before = wired.node.exec("ip", ["-o", "link"]);
    const { exitCode, stdout } = rawCall(wired.node, podEnvironment({ CNI_NETNS: wired.node.path }), conf());
    assert.equal(exitCode, 1);
    assert.equal(objectOf(stdout)["code"], 8);
    assert.equal(wired.node.exec("ip", ["-o", "link"]), before);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P14: a path that is not a network namespace is error 8", () => {
    for (const netns of ["/run/netns/no-such-namespace", "/proc/self/ns/uts", "/etc/passwd", "/dev/null"]) {
      const { exitCode, stdout } = rawCall(wired.node, podEnvironment({ CNI_NETNS: netns }), conf());
      assert.equal(exitCode, 1, netns);
      assert.equal(objectOf(stdout)["code"], 8, stdout);
      assert.match(String(objectOf(stdout)["msg"]), new RegExp(netns));
    }
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P15: standard output holds only JSON, for a result and for an error, each with its version", () => {
    const pod = lab.pod("p15");
    const { stdout, stderr } = add(wired, pod);
    assert.equal(objectOf(stdout)["cniVersion"], "1.1.0");
    assert.equal(stderr, "");
    const refused = add(wired, pod);
    assert.equal(refused.exitCode, 1);
    assert.deepEqual(Object.keys(objectOf(refused.stdout)).sort(), ["cniVersion", "code", "details", "msg"]);
    assert.equal(refused.stderr, "");
    assert.equal(del(wired, pod).stdout, "");
  });

  it("POD-02: executed as loopback, the plugin brings lo up for a sandbox, as containerd asks for", () => {
    const loopback = pluginAs("loopback", lab.scratch);
    const pod = lab.pod("lo");
    const stdin = JSON.stringify({ cniVersion: "0.3.1", name: "cni-loopback", type: "loopback" });
    const environment = podEnvironment({ CNI_NETNS: pod.path, CNI_IFNAME: "lo" });
    assert.equal(pod.link("lo").up, false);
    const { exitCode, stdout } = rawCall(wired.node, environment, stdin, loopback);
    assert.equal(exitCode, 0, stdout);
    assert.deepEqual(JSON.parse(stdout), {
      cniVersion: "0.3.1",
      interfaces: [{ name: "lo", mac: "00:00:00:00:00:00", sandbox: pod.path }],
      ips: [
        { version: "4", interface: 0, address: "127.0.0.1/8" },
        { version: "6", interface: 0, address: "::1/128" },
      ],
      dns: {},
    });
    assert.equal(pod.link("lo").up, true);
    const gone = rawCall(wired.node, { ...environment, CNI_COMMAND: "DEL", CNI_NETNS: "" }, stdin, loopback);
    assert.deepEqual(gone, { exitCode: 0, stdout: "", stderr: "" });
    const down = rawCall(wired.node, { ...environment, CNI_COMMAND: "DEL" }, stdin, loopback);
    assert.equal(down.exitCode, 0);
    assert.equal(pod.link("lo").up, false);
  });
});

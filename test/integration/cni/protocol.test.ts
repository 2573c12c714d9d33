import assert from "node:assert/strict";
import { supportedVersions } from "../../../cni/version.ts";
import { add, configurationOf, del, pluginAs, podCall } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { rawCall } from "../../support/cni/raw_call.ts";

describe("the executable and the CNI protocol", () => {
  let lab: Lab;
  let wired: WiredNode;

  before(function () {
    lab = suiteLab(this, "protocol");
    wired = twoNodes(lab).node1;
  });

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

  it("P10: a dual-stack ADD succeeds in each version, with that version in the result", () => {
    const pod = lab.pod("p10");
    for (const cniVersion of supportedVersions) {
      const { exitCode, result, stdout } = add(wired, pod, { cniVersion });
      assert.equal(exitCode, 0, stdout);
      assert.equal(result?.["cniVersion"], cniVersion);
      assert.equal(del(wired, pod, { cniVersion }).exitCode, 0);
    }
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

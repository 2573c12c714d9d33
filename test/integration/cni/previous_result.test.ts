import assert from "node:assert/strict";
import { add, check, type Configuration, configurationOf, del, pluginAs, podCall } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { testLab } from "../../support/suite_lab.ts";
import { addressesOf, nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { rawCall } from "../../support/cni/raw_call.ts";

describe("a plugin that is not the first of its chain", function () {
  this.timeout(60_000);
  let lab: Lab;
  let wired: WiredNode;

  beforeEach(function () {
    lab = testLab(this, "chained");
    wired = twoNodes(lab).node1;
  });
  /** Returns a pod that has an interface of another plugin, and the result of that plugin. */
  function chainedPod(): { readonly pod: LabPod; readonly prevResult: Configuration } {
    const pod = lab.pod("chained");
    pod.exec("ip", ["link", "add", "net1", "type", "veth", "peer", "name", "net1-peer"]);
    pod.exec("ip", ["address", "add", "203.0.113.7/24", "dev", "net1"]);
    pod.exec("ip", ["link", "set", "net1", "up"]);
    const prevResult = {
      cniVersion: "1.1.0",
      interfaces: [{ name: "net1", mac: pod.link("net1").mac, sandbox: pod.path, socketPath: "/run/v.sock" }],
      ips: [{ interface: 0, address: "203.0.113.7/24", gateway: "203.0.113.1" }],
      routes: [{ dst: "203.0.113.0/24", scope: 253 }],
      "x-vendor": { lease: [1, 2] },
    };
    return { pod, prevResult };
  }

  it("P17: ADD returns the earlier result with its own, CHECK and DEL accept it, and the other plugin's interface stays", () => {
    const { pod, prevResult } = chainedPod();
    const { exitCode, stdout, result } = add(wired, pod, { prevResult });
    assert.equal(exitCode, 0, stdout);
    assert.partialDeepStrictEqual(result, {
      interfaces: [prevResult["interfaces"], { name: "cni0" }, {}, { name: "eth0", sandbox: pod.path }].flat(),
      ips: [{ interface: 0, address: "203.0.113.7/24" }, { interface: 3 }, { interface: 3 }],
      "x-vendor": { lease: [1, 2] },
    });
    assert.deepEqual(addressesOf(pod, "net1"), ["203.0.113.7/24"]);
    assert.deepEqual(addressesOf(pod, "eth0"), ["10.244.1.2/32", "fd00:244:1::2/128"]);
    const checked = check(wired, pod, result);
    assert.equal(checked.exitCode, 0, checked.stdout);
    const removed = del(wired, pod, { prevResult: result });
    assert.deepEqual([removed.exitCode, removed.stdout], [0, ""]);
    assert.deepEqual(addressesOf(pod, "net1"), ["203.0.113.7/24"]);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P17: numbers beyond 2^53 and unknown members of an earlier result survive", () => {
    const pod = lab.pod("exact");
    const { environment } = podCall("ADD", wired, pod);
    const unknown = '"x-id": 12345678901234567890123, "x-share": 0.10';
    const text = JSON.stringify(configurationOf(wired)).replace(
      /}$/,
      `, "prevResult": {"cniVersion": "1.1.0", ${unknown}}}`,
    );
    const outcome = rawCall(wired.node, { ...environment, CNI_COMMAND: "ADD" }, text);
    assert.equal(outcome.exitCode, 0, outcome.stdout);
    assert.match(outcome.stdout, /"x-id": 12345678901234567890123,\s+"x-share": 0\.10,/);
    const loopback = rawCall(
      wired.node,
      { ...environment, CNI_COMMAND: "ADD", CNI_IFNAME: "lo" },
      text,
      pluginAs("loopback", lab.scratch),
    );
    assert.match(loopback.stdout, /"x-id": 12345678901234567890123,\s+"x-share": 0\.10\s/);
    const removed = rawCall(wired.node, { ...environment, CNI_COMMAND: "DEL" }, text);
    assert.deepEqual(removed, { exitCode: 0, stdout: "", stderr: "" });
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });
});

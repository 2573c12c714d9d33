import assert from "node:assert/strict";
import { rmSync } from "node:fs";
import { delayDeviceName } from "../../../attachment/names_and_macs.ts";
import { add, type CallOptions, type Configuration, del } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { sha256 } from "../../support/cni/cni.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { hostInterfaceOf, podResult } from "../../support/cni/add_result.ts";
import { ipJson, nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { until } from "../../support/until.ts";
import { roundsFor } from "../../support/long_form.ts";

const KILLS = roundsFor("kills", 24, 400);

const rate = { IngressRate: 20e6, IngressBurst: 2 ** 32, EgressRate: 20e6, EgressBurst: 2 ** 32 };
const limited: Configuration = { runtimeConfig: { bandwidth: rate } };

describe("bandwidth limits come and go with the pod", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let pod: LabPod;

  before(function () {
    lab = suiteLab(this, "bandwidth-del");
    wired = twoNodes(lab).node1;
  });
  beforeEach(() => {
    pod = lab.pod("a");
  });
  afterEach(() => lab?.remove(pod));

  const deviceOf = ({ containerId }: LabPod): string => delayDeviceName(sha256, containerId, "eth0");

  /** Returns the pod's delay device as iproute2 sees it. */
  function seenDevice(): Record<string, unknown> | undefined {
    return ipJson(wired.node, "link", "show", "dev", deviceOf(pod))[0];
  }

  function assertDetached(overrides?: Configuration, options?: CallOptions): void {
    const { exitCode, stdout } = del(wired, pod, overrides, options);
    assert.deepEqual([exitCode, stdout], [0, ""]);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  }

  it("B23 W1: ADD makes a delay device that is up and has the pod's alias and no address, only if what the pod sends is limited", () => {
    podResult(add(wired, pod, limited));
    const seen = seenDevice();
    assert.equal(seen?.["ifalias"], `default/${pod.name}`);
    assert.ok(Array.isArray(seen["flags"]) && seen["flags"].includes("UP"));
    const addresses = wired.node.exec("ip", ["-o", "addr", "show", "dev", deviceOf(pod)]);
    assert.equal(addresses, "");
    assertDetached(limited);
    const { IngressRate, IngressBurst } = rate;
    podResult(add(wired, pod, { runtimeConfig: { bandwidth: { IngressRate, IngressBurst } } }));
    assert.equal(seenDevice(), undefined);
    assertDetached(limited);
  });

  it("STATE-01 W1: the daemon sets a delay device up again that was set down, restores its filter, and reports one that was deleted", async () => {
    const policyd = new PolicydNode(lab, wired);
    const daemon = await policyd.start();
    const overrides = { ...policyd.overrides, ...limited };
    const port = hostInterfaceOf(podResult(add(wired, pod, overrides)));
    // Without the action's number: the kernel frees that of the deleted filter some milliseconds later.
    const filters = (): string =>
      wired.node.exec("tc", ["filter", "show", "dev", port, "ingress"]).replace(/\bindex \d+/, "");
    const before = filters();
    assert.match(before, /Egress Redirect to device dbi/);
    wired.node.exec("ip", ["link", "set", deviceOf(pod), "down"]);
    await until(() => JSON.stringify(seenDevice()?.["flags"]).includes('"UP"'), "the device is up");
    wired.node.exec("tc", ["qdisc", "delete", "dev", port, "clsact"]);
    await until(() => filters() === before, "the filter is back");
    assert.deepEqual(daemon.status().problems, []);
    wired.node.exec("ip", ["link", "delete", deviceOf(pod)]);
    await daemon.statusWhen(({ problems }) => problems.join().includes(`could not have ${deviceOf(pod)}`), "reported");
    del(wired, pod, overrides);
    await daemon.statusWhen(({ problems }) => problems.length === 0, "over");
    await policyd.kill();
  });

  it("P5: DEL of a limited pod leaves nothing, also by a configuration without limits, without a namespace or after it is gone", () => {
    podResult(add(wired, pod, limited));
    assertDetached();
    podResult(add(wired, pod, limited));
    assertDetached({}, { netns: "" });
    podResult(add(wired, pod, limited));
    lab.remove(pod);
    assert.notEqual(seenDevice(), undefined, "the device outlives the pod's namespace");
    assertDetached();
  });

  it("DEL of a limited pod leaves nothing when the attachment record is lost", () => {
    podResult(add(wired, pod, limited));
    rmSync(`${wired.node.runDir}/attachments`, { recursive: true });
    assertDetached();
  });

  it("a foreign link with the delay device's name stays: ADD is refused and leaves nothing, and DEL leaves the link (B2)", () => {
    wired.node.exec("ip", ["link", "add", deviceOf(pod), "type", "ifb"]);
    const { error } = add(wired, pod, limited);
    assert.equal(error?.code, 101, error?.msg);
    assert.ok(error.msg.includes(deviceOf(pod)), error.msg);
    const onlyDevice = { ...nothingHeld, podLinks: [deviceOf(pod)] };
    assert.deepEqual(nodeState(wired.node), onlyDevice);
    const { exitCode } = del(wired, pod, limited);
    assert.equal(exitCode, 0);
    assert.deepEqual(nodeState(wired.node), onlyDevice);
    // Without a limit of what the pod sends, ADD needs no delay device.
    podResult(add(wired, pod));
    assert.equal(del(wired, pod).exitCode, 0);
    wired.node.exec("ip", ["link", "delete", deviceOf(pod)]);
  });

  it(`${KILLS} ADDs with limits, killed at moments over their whole duration and each followed by one DEL, leave nothing`, () => {
    // The duration of the last ADD that was not killed, as what runs beside it changes.
    let usual = add(wired, pod, limited).milliseconds;
    assertDetached(limited);
    let killed = 0;
    let withDevice = 0;
    for (let i = 0; i < KILLS; i++) {
      const seconds = ((usual * 1.1 * (i + 0.5)) / KILLS / 1000).toFixed(6);
      const launcher = ["timeout", "--foreground", "--preserve-status", "--signal=KILL", seconds];
      const { exitCode, milliseconds } = add(wired, pod, limited, { launcher });
      if (exitCode === 0) usual = milliseconds;
      else killed++;
      if (seenDevice() !== undefined) withDevice++;
      assertDetached(limited);
      assert.deepEqual(
        pod.links().map(({ name }) => name),
        ["lo"],
      );
    }
    assert.ok(killed > KILLS / 4, `${killed} of ${KILLS} were killed`);
    assert.ok(withDevice > 0, "no ADD lived long enough to make its device");
  });
});

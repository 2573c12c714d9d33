import assert from "node:assert/strict";
import { existsSync, readdirSync } from "node:fs";
import { parseAddress } from "../../../kernel/ip/address.ts";
import { type CallOutcome, type Configuration, del, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { nodeState } from "../../support/cni/kernel_state.ts";
import { until } from "../../support/until.ts";
import { labelled, networkPolicy } from "../../support/policy/manifest.ts";
import { pod as apiPod } from "../../support/daemon/api_node.ts";

const POLICY = networkPolicy("default", { podSelector: labelled({ app: "web" }) }, "some");

describe("a registration that waits for its Pod object", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let daemon: DaemonProcess;
  let pod: LabPod;

  before(async function () {
    lab = suiteLab(this, "registration");
    ({ node1: wired } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired);
    policyd.put("policy.json", JSON.stringify(POLICY));
    daemon = await policyd.start();
    // The kernel takes a while for the first batch on a busy machine.
    const areThere = (): boolean => wired.node.exec("nft", ["list", "tables"]).includes("drawbridge-policy");
    assert.ok(await eventually(areThere), daemon.log());
  });
  beforeEach(() => {
    pod = lab.pod("a");
  });
  afterEach(async () => {
    assert.equal(del(wired, pod, policyd.overrides).exitCode, 0);
    if (existsSync(policyd.pathOf("pod.json"))) policyd.put("pod.json", "");
    await daemon.statusWhen(({ objects }) => objects["Pod"] === 0, "the Pod is gone");
    await assertNothingLeft();
    lab.remove(pod);
  });

  const startAdd = (changes: Configuration) =>
    startPlugin(wired.node, podCall("ADD", wired, pod, policyd.overridesWith(changes)));
  const descriptors = (): number => readdirSync(`/proc/${daemon.child.pid}/fd`).length;

  async function assertNothingLeft(most = Number.POSITIVE_INFINITY): Promise<void> {
    assert.equal(daemon.status().attachments, 0);
    assert.deepEqual(nodeState(wired.node).reservations, []);
    assert.doesNotMatch(wired.node.ruleset(), /10\.244\.1\.([2-9]|\d\d)/);
    assert.ok(await eventually(() => descriptors() <= most), "connections end with their clients");
  }

  async function untilRegistering(): Promise<void> {
    await daemon.statusWhen(({ attachments }) => attachments === 1, "the pod waits");
  }

  /** Returns whether the node and the pod exchange packets. */
  async function isReached(): Promise<boolean> {
    using prober = new Prober(lab);
    const [address = ""] = /10\.244\.1\.\d+/.exec(pod.exec("ip", ["-4", "address", "show", "dev", "eth0"])) ?? [];
    const to = { address: parseAddress(address), port: 0 };
    const [result] = await prober.run([{ protocol: "icmp", from: wired.node, to }]);
    return result?.reached === true;
  }

  it("REG-02: without its Pod object ADD fails with try again later, names it, and leaves nothing in the daemon", async () => {
    const { error }: CallOutcome = await startAdd({ wait: "5s" }).outcome;
    assert.equal(error?.code, 11);
    assert.match(error?.msg ?? "", /^policyd: the pod is not in force within \d+ ms: .*Pod default\/a/);
    await assertNothingLeft();
  });

  it("REG-02: an ADD that is killed while it waits leaves only what its DEL removes", async () => {
    let before = Number.POSITIVE_INFINITY;
    for (let round = 0; round < 5; round++) {
      const call = startAdd({ wait: "60s" });
      await untilRegistering();
      call.kill("SIGKILL");
      await call.outcome;
      assert.equal(del(wired, pod, policyd.overrides).exitCode, 0);
      // A leak in each round shows in the third: one more descriptor may be the daemon's own.
      await assertNothingLeft(before + 1);
      before = Math.min(before, descriptors());
    }
  });

  it("REG-02: a waiting ADD succeeds as soon as its Pod object is there", async () => {
    const call = startAdd({ wait: "60s" });
    await untilRegistering();
    policyd.put("pod.json", JSON.stringify(apiPod("a", "a")));
    assert.equal((await call.outcome).exitCode, 0);
    assert.ok(await isReached());
  });

  it("REG-02: a waiting ADD asks the next daemon when the first is replaced", async () => {
    const call = startAdd({ wait: "60s" });
    await untilRegistering();
    await policyd.kill();
    policyd.put("pod.json", JSON.stringify(apiPod("a", "a")));
    daemon = await policyd.start();
    assert.equal((await call.outcome).exitCode, 0);
    assert.equal(daemon.status().attachments, 1);
    assert.ok(await isReached());
  });

  it("REG-06: with onUnavailable closed ADD succeeds, and its Pod object opens the pod", async () => {
    assert.equal((await startAdd({ wait: "1s", onUnavailable: "closed" }).outcome).exitCode, 0);
    assert.equal(await isReached(), false);
    policyd.put("pod.json", JSON.stringify(apiPod("a", "a")));
    await until(isReached, "the pod is open");
  });
});

import assert from "node:assert/strict";
import { setTimeout as pause } from "node:timers/promises";
import { formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import { dumpNeighbours, parseNeighbour } from "../../../kernel/route/neighbour.ts";
import { add, type CallOutcome, type Configuration, del, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { Prober } from "../../lab/probe/prober.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { testLab } from "../../support/suite_lab.ts";
import { nodeState } from "../../support/cni/kernel_state.ts";
import { roundsFor } from "../../support/long_form.ts";

const PODS = roundsFor("pods", 12, 100);

describe("pods of a node with policyd", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;
  let policyd: PolicydNode;
  let overrides: Configuration;

  beforeEach(function () {
    lab = testLab(this, "policyd-pods");
    ({ node1: wired } = twoNodes(lab, { mtu: 1420 }));
    policyd = new PolicydNode(lab, wired);
    overrides = policyd.overrides;
  });
  function attach(names: readonly string[]): readonly LabPod[] {
    return names.map((name) => {
      const pod = lab.pod(name);
      assert.equal(add(wired, pod, overrides).error, undefined);
      return pod;
    });
  }

  /** Returns whether ICMP gets there and back, for the addresses of both families that end with this number. */
  async function areReached(from: LabPod, number: number): Promise<readonly boolean[]> {
    using prober = new Prober(lab);
    const flows = [`10.244.1.${number}`, `fd00:244:1::${number.toString(16)}`].map((address) => ({
      protocol: "icmp" as const,
      from,
      to: { address: parseAddress(address), port: 0 },
    }));
    return (await prober.run(flows)).map(({ reached }) => reached);
  }

  function hostLinks(): readonly string[] {
    return wired.node.links().flatMap(({ name }) => (name.startsWith("dbv") ? [name] : []));
  }

  /** Returns the node's permanent neighbour entries, which are all the plugin's. */
  function neighboursOfPods(): readonly string[] {
    const all = FAMILIES.flatMap((family) => wired.node.route.dump(dumpNeighbours(family)).map(parseNeighbour));
    return all.flatMap((entry) => (entry?.permanent === true ? [formatAddress(entry.address)] : []));
  }

  async function delAll(pods: readonly LabPod[]): Promise<readonly CallOutcome[]> {
    return await Promise.all(pods.map((pod) => startPlugin(wired.node, podCall("DEL", wired, pod, overrides)).outcome));
  }

  it("REG-01: a pod is known to the daemon when its ADD returns, and forgotten by its DEL", async () => {
    const running = await policyd.start();
    const [first, second] = attach(["a", "b"]);
    assert.ok(first !== undefined && second !== undefined);
    assert.equal(running.status().attachments, 2);
    const guarded = wired.node.exec("nft", ["list", "set", "bridge", "drawbridge", "pod4"]);
    assert.match(guarded, /"dbv[0-9a-f]{12}" \. 0a:58:0a:f4:01:02 \. 10\.244\.1\.2 comment "default\/a"/);
    assert.equal(del(wired, first, overrides).exitCode, 0);
    assert.equal(running.status().attachments, 1);
    await running.statusWhen(() => !wired.node.ruleset().includes("10.244.1.2"), "forgotten");
    assert.deepEqual(hostLinks().length, 1);
  });

  it("REG-02: without the daemon ADD fails with try again later and leaves nothing, and DEL works", async () => {
    const pod = lab.pod("a");
    const { exitCode, error } = add(wired, pod, overrides);
    assert.deepEqual([exitCode, error?.code], [1, 11]);
    assert.match(error?.msg ?? "", /policyd\.sock.*is policyd running\?/);
    assert.deepEqual(hostLinks(), []);
    assert.deepEqual(nodeState(wired.node).reservations, []);
    const running = await policyd.start();
    const [known] = attach(["b"]);
    assert.ok(known !== undefined);
    await running.kill("SIGKILL");
    assert.equal(del(wired, known, overrides).exitCode, 0);
    assert.deepEqual(hostLinks(), []);
    assert.deepEqual(nodeState(wired.node).reservations, []);
  });

  it("REG-03: a restarted daemon knows the pods that are there, and their traffic goes on meanwhile", async () => {
    const first = await policyd.start();
    const [a] = attach(["a", "b"]);
    assert.ok(a !== undefined);
    assert.deepEqual(await areReached(a, 3), [true, true]);
    await first.kill("SIGKILL");
    assert.deepEqual(await areReached(a, 3), [true, true], "what is in force stays");
    const second = await policyd.start();
    assert.equal(second.status().attachments, 2);
    assert.deepEqual(await areReached(a, 3), [true, true]);
  });

  it(`D3: ${PODS} pods that are attached at once, while the daemon is killed twice and replaced, all reach each other`, async () => {
    let daemon = await policyd.start();
    const pods = Array.from({ length: PODS }, (_, i) => lab.pod(`p${i}`));
    const ended: CallOutcome[] = [];
    const storm = pods.map(async (pod) => {
      const call = podCall("ADD", wired, pod, policyd.overridesWith({ wait: "30s" }));
      ended.push(await startPlugin(wired.node, call).outcome);
    });
    let kills = 0;
    for (const share of [PODS / 6, PODS / 2]) {
      while (ended.length < share) await pause(1);
      if (ended.length < PODS) kills++;
      await daemon.kill("SIGKILL");
      daemon = await policyd.start();
    }
    assert.ok(kills > 0, "pods were on their way");
    await Promise.all(storm);
    assert.deepEqual(
      ended.filter(({ exitCode }) => exitCode !== 0),
      [],
    );
    await daemon.statusWhen(({ attachments }) => attachments === PODS, "every pod is known");
    const numbers = Array.from({ length: PODS }, (_, i) => 2 + i);
    const reached = await Promise.all(
      pods.map(async (pod, index) => await areReached(pod, numbers[(index + 1) % PODS] ?? 2)),
    );
    assert.deepEqual(
      reached.filter((both) => both.includes(false)),
      [],
    );
  });

  it(`DEL-01 DEL-02: ${PODS} DELs at once return when links and neighbour entries are gone, and leave none`, async () => {
    const running = await policyd.start();
    const pods = attach(Array.from({ length: PODS }, (_, i) => `p${i}`));
    assert.equal(hostLinks().length, PODS);
    assert.equal(neighboursOfPods().length, 2 * PODS);
    const outcomes = await delAll(pods);
    assert.deepEqual(
      outcomes.filter(({ exitCode }) => exitCode !== 0),
      [],
    );
    assert.deepEqual(hostLinks(), []);
    assert.deepEqual(neighboursOfPods(), []);
    assert.deepEqual(nodeState(wired.node).reservations, []);
    assert.equal(running.status().attachments, 0);
  });

  it("DEL-01 DEL-02: when the daemon is killed during DELs, the plugin removes links and neighbour entries, and none is left", async () => {
    const running = await policyd.start();
    const pods = attach(Array.from({ length: PODS }, (_, i) => `p${i}`));
    const ended = delAll(pods);
    setTimeout(() => void running.kill("SIGKILL"), 60);
    const outcomes = await ended;
    assert.deepEqual(
      outcomes.filter(({ exitCode }) => exitCode !== 0),
      [],
    );
    assert.deepEqual(hostLinks(), []);
    assert.deepEqual(neighboursOfPods(), []);
    assert.deepEqual(nodeState(wired.node).reservations, []);
  });
});

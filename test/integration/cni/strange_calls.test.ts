import assert from "node:assert/strict";
import { mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { add, type CallOutcome, del, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { podResult } from "../../support/cni/add_result.ts";
import { addressesOf, nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";

/** The limit for a call: one that waits for something that never comes takes longer. */
const LONGEST_CALL_MILLISECONDS = 10_000;
const AT_ONCE = 8;

describe("calls that no runtime should make", function () {
  this.timeout(120_000);
  let lab: Lab;
  let wired: WiredNode;

  before(function () {
    lab = suiteLab(this, "strange-calls");
    ({ node1: wired } = twoNodes(lab));
  });

  const newPod = (): LabPod => lab.pod(`p${lab.namespaces.length}`);
  const links = (): string => wired.node.exec("ip", ["-o", "link"]);
  const codeOf = ({ stdout }: CallOutcome): unknown => (JSON.parse(stdout) as Record<string, unknown>)["code"];

  /** Returns paths that lead to the node's own namespace, and paths that lead to no network namespace. */
  function paths(): { readonly own: readonly string[]; readonly none: readonly string[] } {
    const directory = `${lab.scratch}/paths${lab.namespaces.length}`;
    mkdirSync(`${directory}/directory`, { recursive: true });
    symlinkSync(wired.node.path, `${directory}/link`);
    symlinkSync("link", `${directory}/link-of-link`);
    symlinkSync("circle", `${directory}/circle`);
    symlinkSync("/nowhere", `${directory}/dangling`);
    writeFileSync(`${directory}/file`, "");
    assert.equal(spawnSync("mkfifo", [`${directory}/fifo`]).status, 0);
    return {
      own: ["link", "link-of-link", "directory/../link"]
        .map((name) => `${directory}/${name}`)
        .concat("/proc/self/ns/net", "/proc/thread-self/ns/net", `/proc/self/root${wired.node.path}`),
      none: ["directory", "circle", "dangling", "file", "file/x", "fifo"]
        .map((name) => `${directory}/${name}`)
        .concat("/", "/dev/zero", "/proc/self/ns/mnt", "/proc/self/ns/user"),
    };
  }

  it("P14: ADD with a path to the node's own namespace, or to something else, fails without a wait and makes nothing", () => {
    const before = links();
    const { own, none } = paths();
    for (const netns of [...own, ...none]) {
      const outcome = add(wired, newPod(), {}, { netns });
      assert.equal(outcome.exitCode, 1, netns);
      assert.equal(codeOf(outcome), 8, `${netns}: ${outcome.stdout}`);
      assert.ok(outcome.milliseconds < LONGEST_CALL_MILLISECONDS, `${netns}: ${outcome.milliseconds} ms`);
      assert.equal(links(), before, netns);
    }
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P14: DEL with a path to the node's own namespace removes no link of the node, whatever its name", () => {
    const pod = newPod();
    assert.equal(add(wired, pod).exitCode, 0);
    const [before, held] = [links(), nodeState(wired.node)];
    for (const netns of paths().own) {
      for (const ifname of ["uplink", "cni0", "lo"]) {
        const outcome = del(wired, newPod(), {}, { netns, ifname });
        assert.equal(codeOf(outcome), 8, `${netns} ${ifname}: ${outcome.stdout}`);
        assert.equal(links(), before, `${netns} ${ifname}`);
      }
    }
    assert.deepEqual(nodeState(wired.node), held);
    assert.equal(del(wired, pod).exitCode, 0);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P6 B5: an interface name that is a setting, a pattern or taken is refused and leaves nothing", () => {
    const pod = newPod();
    const before = pod.exec("ip", ["-o", "link"]);
    for (const [ifname, code] of [
      ["all", 4],
      ["default", 4],
      ["eth%d", 4],
      ["a\nb", 4],
      ["../eth0", 4],
      ["eth0/x", 4],
      ["é".repeat(8), 4],
      ["lo", 104],
    ] as const) {
      const outcome = add(wired, pod, {}, { ifname });
      assert.equal(codeOf(outcome), code, `${JSON.stringify(ifname)}: ${outcome.stdout}`);
      assert.equal(pod.exec("ip", ["-o", "link"]), before, ifname);
    }
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P19: of ADDs for one container that two runtimes make at once one succeeds, and one DEL leaves nothing", async () => {
    const pod = newPod();
    for (let round = 0; round < 3; round++) {
      const calls = Array.from({ length: AT_ONCE }, () => startPlugin(wired.node, podCall("ADD", wired, pod)));
      const outcomes = await Promise.all(calls.map(({ outcome }) => outcome));
      const [only, ...others] = outcomes.filter(({ exitCode }) => exitCode === 0);
      assert.ok(only !== undefined && others.length === 0, outcomes.map(({ stdout }) => stdout).join("\n"));
      const addresses = podResult(only).ips.map(({ address }) => address);
      assert.deepEqual(addressesOf(pod, "eth0"), addresses);
      const held = nodeState(wired.node);
      assert.deepEqual(
        [held.podLinks.length, held.records.length, held.reservations.length, held.neighbours.length],
        [1, 1, 2, 2],
      );
      assert.equal(del(wired, pod).exitCode, 0);
      assert.deepEqual(nodeState(wired.node), nothingHeld);
    }
  });

  it("I6: of ADDs for one address that are made at once one succeeds, and the others hold nothing", async () => {
    const overrides = { args: { cni: { ips: ["10.244.1.77", "fd00:244:1::77"] } } };
    const pods = Array.from({ length: AT_ONCE }, () => newPod());
    const calls = pods.map((pod) => startPlugin(wired.node, podCall("ADD", wired, pod, overrides)));
    const outcomes = await Promise.all(calls.map(({ outcome }) => outcome));
    assert.equal(outcomes.filter(({ exitCode }) => exitCode === 0).length, 1);
    const holders = pods.filter((pod) => addressesOf(pod, "eth0").length > 0);
    assert.equal(holders.length, 1);
    assert.equal(nodeState(wired.node).podLinks.length, 1);
    assert.deepEqual(nodeState(wired.node).reservations.toSorted(), ["10.244.1.77", "fd00:244:1::77"]);
    for (const pod of holders) assert.equal(del(wired, pod, overrides).exitCode, 0);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P19: DEL succeeds while a program in the pod locks its namespace", async () => {
    const pod = newPod();
    assert.equal(add(wired, pod).exitCode, 0);
    const holder = pod.inside(() =>
      spawn("flock", ["--no-fork", "/proc/self/ns/net", "sh", "-c", "echo held; exec sleep 60"]),
    );
    try {
      await once(holder.stdout, "data");
      const outcome = del(wired, pod);
      assert.equal(outcome.exitCode, 0, outcome.stdout);
      assert.ok(outcome.milliseconds > 4000 && outcome.milliseconds < 15_000, `${outcome.milliseconds} ms`);
      assert.deepEqual(nodeState(wired.node), nothingHeld);
    } finally {
      holder.kill("SIGKILL");
    }
  });

  it("P19: an ADD that waits for a stopped daemon delays no call of another container, and DEL removes what it leaves when it is killed", async () => {
    const policyd = new PolicydNode(lab, wired, "60s");
    const daemon = await policyd.start();
    try {
      await daemon.pause();
      const [waiting, other] = [newPod(), newPod()];
      const call = startPlugin(wired.node, podCall("ADD", wired, waiting, policyd.overrides));
      assert.ok(await eventually(() => nodeState(wired.node).records.length === 1));
      assert.equal(add(wired, other).exitCode, 0);
      assert.equal(del(wired, other).exitCode, 0);
      assert.equal(nodeState(wired.node).records.length, 1, "the ADD still waits");
      call.kill("SIGKILL");
      await call.outcome;
      daemon.child.kill("SIGCONT");
      assert.equal(del(wired, waiting, policyd.overrides).exitCode, 0);
      assert.deepEqual(nodeState(wired.node), nothingHeld);
      assert.equal(daemon.status().attachments, 0);
    } finally {
      await policyd.kill();
    }
  });

  it("P19: after ADDs and DELs for one container made at once, a last DEL leaves nothing", async () => {
    const pod = newPod();
    for (let round = 0; round < 5; round++) {
      const commands = (["ADD", "DEL", "DEL", "ADD", "DEL"] as const).map((command) =>
        startPlugin(wired.node, podCall(command, wired, pod)),
      );
      await Promise.all(commands.map(({ outcome }) => outcome));
      assert.equal(del(wired, pod).exitCode, 0);
      assert.deepEqual(nodeState(wired.node), nothingHeld);
      assert.deepEqual(
        pod.links().map(({ name }) => name),
        ["lo"],
      );
    }
  });
});

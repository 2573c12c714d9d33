import assert from "node:assert/strict";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { type Configuration, podCall, startPlugin } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { eventually } from "../../support/guard/guarded_node.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { requireKernel } from "../../support/privilege.ts";
import { randomFrom } from "../../support/random.ts";
import { ServedPlugin } from "../../support/cni/served_plugin.ts";
import { containerState, podAddresses } from "../../support/cni/container_state.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { roundsFor } from "../../support/long_form.ts";

const PARALLEL = 8;
const FEWEST_ROUNDS = roundsFor("rounds", 8, 100);
/** The number of calls that must be under way when the server is killed. */
const CUT_REQUIRED = FEWEST_ROUNDS;
const MOST_ROUNDS = 10 * FEWEST_ROUNDS;
/** The last moment of a kill after the start of the shims: all have ended by then. At 0 none has connected. */
const LATEST_KILL_MILLISECONDS = 80;

const POLICY = {
  apiVersion: "networking.k8s.io/v1",
  kind: "NetworkPolicy",
  metadata: { name: "all", namespace: "default" },
  spec: { podSelector: {} },
};

describe("a plugin server that is killed, or whose shims are killed", function () {
  this.timeout(120_000);
  let lab: Lab;
  let wired: WiredNode;
  let plugin: ServedPlugin;

  beforeEach(function () {
    requireKernel(this);
    lab = createLab("server-kills");
    wired = twoNodes(lab).node1;
    plugin = new ServedPlugin(lab);
  });
  afterEach(() => lab?.destroy());

  const start = (command: "ADD" | "DEL", pod: LabPod, changes: Configuration = {}) =>
    startPlugin(wired.node, podCall(command, wired, pod, changes, { executable: plugin.executable }));

  async function succeed(command: "ADD" | "DEL", pod: LabPod, changes: Configuration = {}): Promise<void> {
    const { exitCode, stdout } = await start(command, pod, changes).outcome;
    assert.equal(exitCode, 0, `${command} ${pod.name}: ${stdout}`);
  }

  /** Makes a call, and returns whether the server ended in the middle of it. */
  async function isCut(command: "ADD" | "DEL", pod: LabPod): Promise<boolean> {
    const { exitCode, error, stdout, signal } = await start(command, pod).outcome;
    if (exitCode === 0) return false;
    assert.equal(error?.code, 11, `${command} ${pod.name}: ${signal} ${stdout}`);
    assert.match(error?.msg ?? "", /server/);
    return true;
  }

  it("SERVER-02: when the server is killed, each call ends with its answer or error 11, and a DEL clears what it left", async () => {
    const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 2 ** 31);
    const pods = Array.from({ length: PARALLEL }, (_, i) => lab.pod(`p${i}`));
    const cut = { ADD: 0, DEL: 0 };
    let rounds = 0;
    /** Makes all calls at once, and kills the server while they run. */
    const storm = async (command: "ADD" | "DEL", moment: number): Promise<void> => {
      const pid = plugin.warm();
      const ends = pods.map((pod) => isCut(command, pod));
      await pause(moment * LATEST_KILL_MILLISECONDS);
      process.kill(pid, "SIGKILL");
      cut[command] += (await Promise.all(ends)).filter(Boolean).length;
      // A killed server may still seem to listen for a moment.
      assert.ok(await eventually(() => plugin.server.pid !== pid), `process ${pid} has ended`);
    };
    try {
      for (; rounds < FEWEST_ROUNDS || (cut.ADD + cut.DEL < CUT_REQUIRED && rounds < MOST_ROUNDS); rounds++) {
        const random = randomFrom(seed + rounds);
        await storm("ADD", random());
        const addresses = pods.map((pod) => {
          const { reservations } = containerState(wired, pod, []);
          return [...podAddresses(pod), ...reservations];
        });
        await storm("DEL", random());
        await Promise.all(pods.map((pod) => succeed("DEL", pod)));
        for (const [i, pod] of pods.entries()) {
          assert.deepEqual(containerState(wired, pod, addresses[i] ?? []), {
            links: ["lo"],
            reservations: [],
            records: [],
            neighbours: [],
          });
        }
        assert.deepEqual(nodeState(wired.node), nothingHeld);
      }
    } finally {
      console.log(
        `      seed ${seed} (DRAWBRIDGE_SEED replays it), ${rounds} rounds: ${cut.ADD} ADDs and ${cut.DEL} DELs cut off`,
      );
    }
    assert.ok(cut.ADD + cut.DEL >= CUT_REQUIRED, `${cut.ADD + cut.DEL} calls were cut off; expected ${CUT_REQUIRED}`);
    plugin.warm();
    plugin.forbidCold();
    const [pod] = pods;
    assert.ok(pod !== undefined);
    await succeed("ADD", pod);
    await succeed("DEL", pod);
  });

  it("SERVER-07: an ADD that waits for the daemon delays no other call, and ends as soon as its shim is killed", async () => {
    const policyd = new PolicydNode(lab, wired);
    // No policies come into force for a pod whose object the daemon does not have.
    policyd.put("policy.json", JSON.stringify(POLICY));
    const daemon = await policyd.start();
    try {
      const areThere = (): boolean => wired.node.exec("nft", ["list", "tables"]).includes("drawbridge-policy");
      assert.ok(await eventually(areThere), daemon.log());
      plugin.warm();
      plugin.forbidCold();
      const [waiting, other] = [lab.pod("waiting"), lab.pod("other")];
      await succeed("ADD", other);
      await succeed("DEL", other);
      const before = plugin.descriptors;
      const patient = policyd.overridesWith({ wait: "60s" });
      for (let round = 0; round < 3; round++) {
        const add = start("ADD", waiting, patient);
        await daemon.statusWhen(({ attachments }) => attachments === 1, "the pod waits");
        assert.ok(plugin.descriptors > before);
        await succeed("ADD", other);
        await succeed("DEL", other);
        assert.equal(daemon.status().attachments, 1, "the pod still waits");
        add.kill("SIGKILL");
        await add.outcome;
        await succeed("DEL", waiting, policyd.overrides);
        assert.deepEqual(nodeState(wired.node), nothingHeld);
        assert.equal(daemon.status().attachments, 0);
        assert.ok(await eventually(() => plugin.descriptors <= before), `${plugin.descriptors}, and ${before} before`);
      }
    } finally {
      await policyd.kill();
    }
  });

  it("SERVER-07: a stopped daemon delays only the calls that wait for it", async () => {
    const policyd = new PolicydNode(lab, wired, "60s");
    const daemon = await policyd.start();
    try {
      plugin.warm();
      plugin.forbidCold();
      await daemon.pause();
      const [waiting, other] = [lab.pod("waiting"), lab.pod("other")];
      const add = start("ADD", waiting, policyd.overrides);
      const isUnderWay = (): boolean => containerState(wired, waiting, []).records.length === 1;
      assert.ok(await eventually(isUnderWay));
      await succeed("ADD", other);
      await succeed("DEL", other);
      assert.ok(isUnderWay());
      add.kill("SIGKILL");
      await add.outcome;
      daemon.child.kill("SIGCONT");
      await succeed("DEL", waiting, policyd.overrides);
      assert.deepEqual(nodeState(wired.node), nothingHeld);
      assert.equal(daemon.status().attachments, 0);
    } finally {
      await policyd.kill();
    }
  });
});

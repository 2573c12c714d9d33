import assert from "node:assert/strict";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { SHIM_PATIENCE_SECONDS, SOCKET_FILE } from "../../cni/server/protocol.ts";
import { Errno } from "../../kernel/syscall/errno.ts";
import { check } from "../../kernel/syscall/syscalls.ts";
import { socketAddress } from "../../kernel/unix_stream.ts";
import { podCall, startPlugin } from "../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../lab/lab.ts";
import { twoNodes, type WiredNode } from "../lab/topology.ts";
import { requireKernel } from "../support/privilege.ts";
import { randomFrom } from "../support/random.ts";
import { ServedPlugin } from "../support/cni/served_plugin.ts";
import { containerState, podAddresses } from "../support/cni/container_state.ts";
import { nodeState, nothingHeld } from "../support/cni/kernel_state.ts";
import { roundsFor } from "../support/long_form.ts";

const AF_UNIX = 1;
const SOCK_SEQPACKET = 5;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const PATIENCE = SHIM_PATIENCE_SECONDS * 1000;
/** Milliseconds that the plugin's own start may take on a busy machine. */
const COLD = 4000;
const ROUNDS = roundsFor("rounds", 5, 40);
const PARALLEL = 6;

describe("a plugin server that is stopped, or that has silent connections", function () {
  this.timeout(240_000);
  let lab: Lab;
  let wired: WiredNode;
  let plugin: ServedPlugin;

  beforeEach(function () {
    requireKernel(this);
    lab = createLab("server-stopped");
    wired = twoNodes(lab).node1;
    plugin = new ServedPlugin(lab);
  });
  afterEach(() => lab?.destroy());

  const start = (command: "ADD" | "DEL", pod: LabPod) =>
    startPlugin(wired.node, podCall(command, wired, pod, {}, { executable: plugin.executable }));

  /** Makes a call that must succeed, and returns how many milliseconds it took. */
  async function succeed(command: "ADD" | "DEL", pod: LabPod): Promise<number> {
    const begin = performance.now();
    const { exitCode, stdout } = await start(command, pod).outcome;
    assert.equal(exitCode, 0, `${command} ${pod.name}: ${stdout}`);
    return performance.now() - begin;
  }

  /** Connects to the server, sends nothing, and returns the descriptor. */
  function connectSilently(): number {
    const fd = check(lab.calls.socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), "a silent socket");
    const address = socketAddress(`${plugin.server.runDirectory}/${SOCKET_FILE}`);
    check(lab.calls.connect(fd, address), "connect, and say nothing");
    return fd;
  }

  it("SERVER-10 SHIM-07: the plugin does the calls that a stopped server has not taken, and the server does none of them later", async () => {
    const pid = plugin.warm();
    process.kill(pid, "SIGSTOP");
    const pods = Array.from({ length: PARALLEL }, (_, i) => lab.pod(`p${i}`));
    // The kernel connects to a stopped server as well; a client that waited for an answer would wait for ever.
    const client = connectSilently();
    try {
      for (const command of ["ADD", "DEL"] as const) {
        const took = await Promise.all(pods.map((pod) => succeed(command, pod)));
        for (const milliseconds of took) {
          assert.ok(milliseconds >= PATIENCE && milliseconds < PATIENCE + COLD, `${command} took ${milliseconds} ms`);
        }
      }
      assert.deepEqual(nodeState(wired.node), nothingHeld);
      assert.equal(lab.calls.receiveFrom(client, new Uint8Array(1), 0, new Uint8Array(128)), -Errno.EAGAIN);
    } finally {
      lab.calls.close(client);
      process.kill(pid, "SIGCONT");
    }
    // The server still has the earlier requests, and goes through them before this one.
    plugin.forbidCold();
    const further = lab.pod("further");
    await succeed("ADD", further);
    for (const pod of pods) assert.deepEqual(podAddresses(pod), [], `${pod.name}, whose DEL was done`);
    await succeed("DEL", further);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("SERVER-10: a call is done once even if its shim gives up just when the stopped server goes on", async () => {
    const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 2 ** 31);
    console.log(`      seed ${seed} (DRAWBRIDGE_SEED replays it)`);
    const pods = Array.from({ length: PARALLEL }, (_, i) => lab.pod(`p${i}`));
    for (let round = 0; round < ROUNDS; round++) {
      const random = randomFrom(seed + round);
      for (const command of ["ADD", "DEL"] as const) {
        const pid = plugin.warm();
        process.kill(pid, "SIGSTOP");
        const calls = Promise.all(pods.map((pod) => succeed(command, pod)));
        // Shims start within some ten milliseconds, and give up with the same differences.
        await pause(PATIENCE - 20 + random() * 80);
        process.kill(pid, "SIGCONT");
        await calls;
        const given = pods.flatMap((pod) => containerState(wired, pod, podAddresses(pod)).reservations);
        assert.equal(new Set(given).size, given.length, "no address is reserved twice");
        assert.equal(given.length, command === "ADD" ? 2 * PARALLEL : 0, `after each ${command}`);
      }
      assert.deepEqual(nodeState(wired.node), nothingHeld);
    }
  });

  it("SERVER-11: a thousand silent connections delay no call", async () => {
    plugin.warm();
    const silent = Array.from({ length: 1000 }, connectSilently);
    plugin.forbidCold();
    const pod = lab.pod("a");
    try {
      const took = await succeed("ADD", pod);
      assert.ok(took < 1000, `${took} ms`);
      await succeed("DEL", pod);
    } finally {
      for (const fd of silent) lab.calls.close(fd);
    }
  });
});

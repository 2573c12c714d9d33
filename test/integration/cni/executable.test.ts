import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync } from "node:fs";
import os from "node:os";
import process from "node:process";
import { fileURLToPath } from "node:url";
import { add, configurationOf, del, DRAWBRIDGE } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { rawCall, type RawOutcome } from "../../support/cni/raw_call.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { requireLongForm } from "../../support/long_form.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { randomFrom } from "../../support/random.ts";
import { makePlugin } from "../../setup/build.mjs";
import { sanitizedPlugin } from "../../support/cni/sanitized_plugin.ts";

const PROJECT = fileURLToPath(new URL("../../..", import.meta.url)).replace(/\/$/, "");
const CALLS = 200;
const VERBS = ["ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION", "", "X"];

describe("the plugin's executable", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;

  before(function () {
    lab = suiteLab(this, "executable");
    ({ node1: wired } = twoNodes(lab));
  });

  const environment = (verb: string): Readonly<Record<string, string>> => ({
    CNI_COMMAND: verb,
    CNI_CONTAINERID: "c1",
    CNI_NETNS: `${lab.scratch}/nowhere`,
    CNI_IFNAME: "eth0",
    CNI_PATH: "/nowhere",
  });

  /** Expects CNI's form: a result, or an error with code and message, and nothing on standard error but warnings. */
  function expectAnswer({ exitCode, stdout, stderr }: RawOutcome, what: string): void {
    assert.ok(exitCode === 0 || exitCode === 1, `${what}: ${exitCode} ${stderr}`);
    assert.match(stderr, /^(|Drawbridge CNI plugin\n.*\n|GC of network .*\n)$/, what);
    if (exitCode === 0) return;
    const error = JSON.parse(stdout) as { readonly code?: unknown; readonly msg?: unknown };
    assert.ok(
      typeof error.code === "number" && error.code !== 999 && typeof error.msg === "string",
      `${what}: ${stdout}`,
    );
  }

  /**
   * Calls an executable where it sees none of the machine's own state, and writes only to the lab's directory: a damaged
   * configuration may name any path.
   */
  function hiddenCall(executable: string, env: Readonly<Record<string, string>>, stdin: string): RawOutcome {
    const steps = [
      ...[os.tmpdir(), lab.scratch].map((path) => `mount --bind ${path} ${path}`),
      ...[os.tmpdir(), "/"].map((path) => `mount -o remount,bind,ro ${path}`),
      ...["/run", "/var/lib"].map((path) => `mount -t tmpfs none ${path}`),
      'exec "$0"',
    ];
    const hidden = ["unshare", "--mount", "sh", "-c", steps.join(" && "), executable] as const;
    return rawCall(wired.node, { ...env, PATH: process.env["PATH"] ?? "" }, stdin, hidden);
  }

  /** Calls an executable with damaged configurations; the seed replays a failure. */
  function callWithMutations(executable: string): void {
    const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 0x7fff_ffff);
    const random = randomFrom(seed);
    const pick = (count: number): number => Math.floor(random() * count);
    const whole = JSON.stringify({ ...configurationOf(wired), capabilities: { portMappings: true }, policyd: {} });
    for (let i = 0; i < CALLS; i++) {
      let text = whole;
      for (let changes = pick(4); changes >= 0; changes--) {
        const at = pick(text.length);
        const piece = ["", '"', "[", "{", "}", "\u0000", "-1e999", "null", "é\ud800", text.slice(pick(text.length))][
          pick(10)
        ];
        text = `${text.slice(0, at)}${piece ?? ""}${text.slice(at + pick(8))}`;
      }
      const verb = VERBS[pick(VERBS.length)] ?? "";
      expectAnswer(hiddenCall(executable, environment(verb), text), `seed ${seed}, call ${i}: ${verb} ${text}`);
    }
  }

  it("P15: each of 200 damaged configurations is answered with a result or an error, and nothing else is printed", () =>
    callWithMutations(DRAWBRIDGE));

  it("RUNTIME-04: a call with deep or long input, or with little memory or stack, ends with an error in CNI's form", () => {
    const inputs: Readonly<Record<string, string>> = {
      "deep lists": "[".repeat(1_000_000),
      "deep objects": '{"a":'.repeat(500_000),
      "a long text": JSON.stringify({ name: "x".repeat(3_900_000) }),
      "many ranges": `{"cniVersion":"1.1.0","name":"n","ipam":{"ranges":[${"[],".repeat(1_000_000)}[]]}}`,
      "more than 4 MiB": " ".repeat(5_000_000),
    };
    for (const [what, text] of Object.entries(inputs)) {
      expectAnswer(rawCall(wired.node, environment("ADD"), text), what);
      const limited = limitedCall("ulimit -s 128", text);
      expectAnswer(limited, `${what}, with a small stack`);
    }
    const whole = JSON.stringify(configurationOf(wired));
    expectAnswer(limitedCall("ulimit -v 20000", whole), "20 MB of address space");
    const starved = limitedCall("ulimit -v 2200", whole);
    assert.equal(
      (JSON.parse(starved.stdout) as { msg: string }).msg,
      "out of memory; expected at least 20 MB of address space",
    );
  });

  function limitedCall(limit: string, stdin: string): RawOutcome {
    return rawCall(wired.node, environment("ADD"), stdin, ["sh", "-c", `${limit} && exec "$0"`, DRAWBRIDGE]);
  }

  it("RUNTIME-04: the executable attaches and removes a pod in a root directory that has nothing but /proc, /sys and the node's state", () => {
    const root = `${lab.scratch}/root`;
    mkdirSync(root);
    copyFileSync(DRAWBRIDGE, `${root}/drawbridge`);
    const bound = ["/proc", "/sys", "/run", lab.scratch];
    const mounts = bound.map((path) => `mkdir -p "${root}${path}" && mount --rbind "${path}" "${root}${path}"`);
    const launcher = ["unshare", "--mount", "sh", "-c", `${mounts.join(" && ")} && exec chroot "${root}" /drawbridge`];
    const pod = lab.pod("chrooted");
    const added = add(wired, pod, {}, { launcher });
    assert.equal(added.exitCode, 0, added.stdout + added.stderr);
    assert.equal(del(wired, pod, {}, { launcher }).exitCode, 0);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P15: the executable with sanitizers reports no wrong address and no undefined behaviour, for a pod and for 200 damaged configurations", function () {
    requireLongForm(this, "compiling the engine with sanitizers takes too long");
    const executable = sanitizedPlugin(lab.scratch);
    const pod = lab.pod("sanitized");
    for (const { exitCode, stdout, stderr } of [
      add(wired, pod, {}, { executable }),
      del(wired, pod, {}, { executable }),
    ]) {
      assert.deepEqual([exitCode, stderr], [0, ""], stdout);
    }
    callWithMutations(executable);
  });

  it("RUNTIME-04: the executable for arm64 answers VERSION as that for this machine does", function () {
    requireLongForm(this, "compiling the engine for arm64 takes too long");
    const executable = `${lab.scratch}/drawbridge-arm64`;
    makePlugin(PROJECT, process.execPath, "arm64", executable);
    const { stdout, stderr } = spawnSync("qemu-aarch64", [executable], {
      env: { PATH: process.env["PATH"], CNI_COMMAND: "VERSION" },
      encoding: "utf8",
    });
    assert.equal(stdout, rawCall(wired.node, environment("VERSION"), "").stdout, stderr);
  });
});

import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { askPolicyd } from "../../../attachment/policyd_client.ts";
import { nodeSyscalls } from "../../../kernel/syscall/koffi.ts";
import type { Lab } from "../../lab/lab.ts";
import { BUNDLE, type DaemonProcess, startDaemon } from "../../support/daemon/policyd.ts";
import { useTemporaryDirectory } from "../../support/ipam/address_store.ts";
import { roundsFor } from "../../support/long_form.ts";
import { suiteLab } from "../../support/suite_lab.ts";

const ROUNDS = roundsFor("rounds", 2, 20);
const syscalls = nodeSyscalls();

describe("the built policyd", function () {
  this.timeout(300_000);
  let lab: Lab | undefined;
  let namespace: string;
  let daemons: DaemonProcess[] = [];
  // Before the directory goes, in which a daemon might write meanwhile.
  afterEach(async () => {
    await Promise.all(daemons.map((daemon) => daemon.kill("SIGKILL")));
  });
  const base = useTemporaryDirectory();
  const socketPath = () => `${base()}/run/policyd.sock`;

  before(function () {
    lab = suiteLab(this, "policyd");
    namespace = lab.namespace("node").path;
  });
  beforeEach(() => {
    daemons = [];
    mkdirSync(`${base()}/objects`);
  });

  function start(args: readonly string[] = [], bundle = BUNDLE, options: readonly string[] = []): DaemonProcess {
    const state = ["--state-directory", `${base()}/state`];
    const objects = ["--node-name", "node-1", "--objects", `${base()}/objects`];
    const inside = ["--network-namespace", namespace];
    const daemon = startDaemon(socketPath(), [...objects, ...state, ...inside, ...args], bundle, options);
    daemons.push(daemon);
    return daemon;
  }

  const isSynced = ({ isSynced: is }: { readonly isSynced: boolean }): boolean => is;

  it(`DAEMON-05: after each of ${ROUNDS} kills the next policyd starts at the same socket`, async () => {
    for (let round = 0; round < ROUNDS; round++) {
      const daemon = start();
      await daemon.statusWhen(isSynced, "synced");
      assert.deepEqual(await daemon.kill("SIGKILL"), { code: null, signal: "SIGKILL" });
      assert.ok(existsSync(socketPath()), "the killed daemon leaves its socket");
      assert.throws(() => daemon.status(), { code: "ERR_UNAVAILABLE", message: /ECONNREFUSED.*is policyd running\?/ });
    }
    await start().statusWhen(isSynced, "synced");
  });

  it("DAEMON-05: of two policyd started at once one exits with a reason in one line, and the other goes on", async () => {
    const two = [start(), start()];
    const refused = await Promise.race(two.map(async (daemon) => [daemon, await daemon.ended] as const));
    const [loser, end] = refused;
    assert.deepEqual(end, { code: 1, signal: null });
    assert.match(loser.log(), /^policyd: another policyd is running on .*: stop it first.*\n$/);
    const winner = two.find((daemon) => daemon !== loser);
    await winner?.statusWhen(isSynced, "synced");
  });

  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    it(`DAEMON-07: ${signal} ends policyd with exit code 0, removes its socket and disconnects a waiting client`, async () => {
      const daemon = start();
      await daemon.statusWhen(isSynced, "synced");
      const client = connect(socketPath());
      client.write('{"version":1');
      const closed = new Promise((resolve) => client.on("close", resolve));
      client.on("error", () => undefined);
      client.resume();
      assert.deepEqual(await daemon.kill(signal), { code: 0, signal: null });
      await closed;
      assert.ok(!existsSync(socketPath()));
      assert.match(daemon.log(), new RegExp(`policyd stops signal=${signal}\\n$`));
    });
  }

  const failures: readonly (readonly [string, readonly string[], RegExp])[] = [
    ["without a node name", ["--objects", "/"], /^policyd: configuration: nodeName: missing; expected/],
    ["with a flag it does not know", ["--bogus"], /^policyd: unknown option '--bogus'/],
    [
      "without objects",
      ["--node-name", "a"],
      /^policyd: apiServer: missing, .* give it as --api-server, or files by --objects$/m,
    ],
    [
      "with an objects directory that does not exist",
      ["--node-name", "a", "--objects", "/none"],
      /^policyd: objectsDirectory: "\/none" is not a directory/,
    ],
    ["with a configuration that does not exist", ["--config", "/none"], /^policyd: --config: \/none does not exist/],
    [
      "in a file that is not a network namespace",
      ["--node-name", "a", "--objects", "/etc", "--network-namespace", "/etc/hostname"],
      /^policyd: enter network namespace/,
    ],
    [
      "on a socket that others can replace",
      ["--node-name", "a", "--objects", "/etc", "--socket", "/tmp/policyd.sock"],
      /^policyd: socketPath: directory \/tmp has/,
    ],
  ];
  for (const [what, args, message] of failures) {
    it(`DAEMON-07: policyd started ${what} says so in one line and exits with 1`, () => {
      // It runs in its own network namespace: it closes the bridge of a node without pods before it reads anything.
      const { status, stderr } = spawnSync("unshare", ["--net", process.execPath, BUNDLE, ...args], {
        encoding: "utf8",
        timeout: 20_000,
        env: { ...process.env, KUBERNETES_SERVICE_HOST: "" },
      });
      assert.equal(status, 1, stderr);
      const reasons = stderr.split("\n").filter((line) => line !== "" && !/ info {2}no pod passes anything/.test(line));
      assert.match(reasons.join("\n"), message);
      assert.equal(reasons.length, 1, stderr);
    });
  }

  for (const bug of ["throw new Error('injected')", "void Promise.reject(new Error('injected'))"]) {
    it(`DAEMON-07: an unforeseen error is logged in one line and ends policyd with exit code 1: ${bug}`, async () => {
      const daemon = start(["--log-format", "json"], BUNDLE, [
        "--import",
        `data:text/javascript,setTimeout(() => { ${bug} }, 300)`,
      ]);
      assert.deepEqual(await daemon.ended, { code: 1, signal: null });
      const last = JSON.parse(daemon.log().trim().split("\n").at(-1) ?? "") as Record<string, unknown>;
      assert.deepEqual([last["level"], last["reason"]], ["error", "injected"]);
      assert.match(String(last["stack"]), /at /);
      await start().statusWhen(isSynced, "the next one takes its place");
    });
  }

  it("DAEMON-04: policyd reports all problems of its configuration, and accepts a good one", async () => {
    const file = `${base()}/policyd.yaml`;
    const head = "apiVersion: drawbridge.dev/v1alpha1\nkind: PolicydConfiguration\n";
    writeFileSync(file, `${head}logFormt: json\nsyncPeriod: 30\n`);
    const bad = start(["--config", file]);
    assert.equal((await bad.ended).code, 1);
    assert.match(
      bad.log(),
      /^policyd: .*logFormt: unknown field; did you mean logFormat\?; also syncPeriod: 30; expected a duration.*\n$/,
    );
    const unknown = Array.from({ length: 10 }, (_, i) => `somethingOfAnotherAddOn${i}`);
    writeFileSync(file, `${head}${unknown.map((name) => `${name}: 1\n`).join("")}`);
    const worse = start(["--config", file]);
    assert.equal((await worse.ended).code, 1);
    for (const name of unknown) assert.match(worse.log(), new RegExp(`${name}: unknown field; one of nodeName`));
    writeFileSync(file, `${head}logFormat: json\n`);
    const good = start(["--config", file]);
    await good.statusWhen(isSynced, "synced");
    await good.kill("SIGTERM");
    for (const line of good.log().trim().split("\n"))
      assert.equal((JSON.parse(line) as { level: string }).level, "info");
  });

  it("policyd runs from any place to which its directory is copied", async () => {
    const copy = `${base()}/elsewhere`;
    cpSync(path.dirname(BUNDLE), copy, { recursive: true });
    writeFileSync(`${base()}/package.json`, '{"type":"commonjs"}');
    await start([], `${copy}/policyd.js`).statusWhen(isSynced, "synced");
  });

  // The last of these tests ends the daemon.
  describe("that keeps running", () => {
    let directory = "";
    let socket = "";
    let daemon: DaemonProcess;

    before(async () => {
      directory = mkdtempSync(`${tmpdir()}/drawbridge-policyd-`);
      socket = `${directory}/run/policyd.sock`;
      mkdirSync(`${directory}/objects`);
      replace("a.json", pod("a", "10.0.0.1"));
      const objects = ["--node-name", "node-1", "--objects", `${directory}/objects`];
      const state = ["--state-directory", `${directory}/state`, "--network-namespace", namespace];
      daemon = startDaemon(socket, [...objects, ...state]);
      await daemon.statusWhen(isSynced, "synced");
    });
    after(async () => {
      await daemon?.kill("SIGKILL");
      if (directory !== "") rmSync(directory, { recursive: true });
    });

    function pod(name: string, ip: string): string {
      return JSON.stringify({ apiVersion: "v1", kind: "Pod", metadata: { name }, status: { podIP: ip } });
    }

    function replace(name: string, text: string): void {
      writeFileSync(`${directory}/objects/.new`, text);
      renameSync(`${directory}/objects/.new`, `${directory}/objects/${name}`);
    }

    it("DAEMON-03: policyd reports its status to the plugin's client, and follows changes in the objects directory", async () => {
      const status = daemon.status();
      assert.equal(status.nodeName, "node-1");
      assert.equal(status.version, (JSON.parse(readFileSync("package.json", "utf8")) as { version: string }).version);
      assert.equal(status.objects["Pod"], 1);
      replace("b.json", pod("b", "10.0.0.2"));
      await daemon.statusWhen(({ objects }) => objects["Pod"] === 2, "two pods");
      replace("b.json", pod("b", "010.0.0.2"));
      const { problems } = await daemon.statusWhen(({ problemCount }) => problemCount === 1, "a problem");
      assert.match(problems[0] ?? "", /^b\.json: Pod default\/b: status\.podIP: "010\.0\.0\.2" is not an IP address/);
      rmSync(`${directory}/objects/a.json`);
      await daemon.statusWhen(({ objects }) => objects["Pod"] === 1, "one pod");
    });

    it("policyd works in the network namespace that it is given", async () => {
      assert.equal(statSync(`/proc/${daemon.child.pid}/ns/net`).ino, statSync(namespace).ino);
      assert.notEqual(statSync(namespace).ino, statSync("/proc/self/ns/net").ino);
    });

    it("the plugin's client gives up in time when policyd does not answer", async () => {
      daemon.child.kill("SIGSTOP");
      const before = performance.now();
      assert.throws(() => askPolicyd(syscalls, socket, { type: "status" }, 200), {
        code: "ERR_UNAVAILABLE",
        message: /cannot receive from .*ETIMEDOUT/,
      });
      assert.ok(performance.now() - before >= 199);
      daemon.child.kill("SIGCONT");
      assert.equal(daemon.status().nodeName, "node-1");
    });
  });
});

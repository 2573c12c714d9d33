import assert from "node:assert/strict";
import { existsSync, mkdirSync, readdirSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { uptime } from "node:os";
import path from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { check, type Configuration, configurationOf, del, podCall, startPlugin } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import type { WiredNode } from "../../lab/topology.ts";
import type { FakeIpam } from "../../support/ipam/fake_ipam.ts";
import { BOTH, ForeignIpamNode } from "../../support/ipam/foreign_ipam_node.ts";
import { until } from "../../support/until.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { nodeState, nothingHeld } from "../../support/cni/kernel_state.ts";
import { rawCall } from "../../support/cni/raw_call.ts";

/** A script with which the fake leaves a process that outlives it, with all its descriptors except standard error. */
const BACKGROUND = "sleep 60 2>/dev/null &\n echo $! > $d/background.new; mv $d/background.new $d/background";

/** A script with which the fake takes a second, without holding our standard error open. */
const SLOW = "exec 2>/dev/null; sleep 1";

describe("an IPAM plugin of others that fails", function () {
  this.timeout(120_000);
  let lab: Lab;
  let node: ForeignIpamNode;
  let wired: WiredNode;
  let ipam: FakeIpam;
  let executable: string;

  before(function () {
    lab = suiteLab(this, "ipamf");
    node = new ForeignIpamNode(lab);
    ({ wired, ipam, executable } = node);
  });
  beforeEach(() => node?.reset());

  it("P16: ADD passes on the IPAM plugin's error with code, message and details, and calls the plugin's DEL", () => {
    const pod = node.pod("refused");
    ipam.fails("ADD", { cniVersion: "1.0.0", code: 110, msg: "no address left in pool", details: "pool b" });
    const { exitCode, error } = node.attach(pod);
    assert.deepEqual([exitCode, error?.code, error?.msg], [1, 110, "no address left in pool"]);
    assert.match(error?.details ?? "", /^pool b; from the IPAM plugin .*\/fake-ipam$/);
    assert.deepEqual(ipam.verbs, ["ADD", "DEL"]);
    node.assertNothingLeft(pod);
  });

  const broken: readonly (readonly [what: string, code: number, words: RegExp, arrange: (ipam: FakeIpam) => void])[] = [
    ["exits without output", 999, /exited with 1 and printed no error/, (it) => it.fails("ADD", "")],
    ["prints no JSON and fails", 999, /exited with 1 and printed no error/, (it) => it.fails("ADD", "panic: x")],
    ["is killed", 999, /ended by signal 9/, (it) => it.does("ADD", "kill -9 $$")],
    ["prints without end", 6, /more than 262144 bytes/, (it) => it.does("ADD", "yes")],
    ["prints nothing", 6, /expected a JSON object/, (it) => it.gives("")],
    ["prints a list", 6, /expected a JSON object/, (it) => it.gives("[]")],
    ["gives no address", 6, /IPAM result\.ips: 0; expected 1 to 32/, (it) => it.gives({ ips: [] })],
    [
      "gives no prefix",
      6,
      /IPAM result\.ips\[0\]\.address: "10\.99\.0\.5"/,
      (it) => it.gives({ ips: [{ address: "10.99.0.5" }] }),
    ],
    ["gives a loopback address", 6, /a unicast address/, (it) => it.gives({ ips: [{ address: "127.0.0.5/24" }] })],
    ["gives half of the Internet", 6, /of \/8 or longer/, (it) => it.gives({ ips: [{ address: "10.0.0.5/1" }] })],
    [
      "answers with an unknown version",
      6,
      /incompatible CNI versions/,
      (it) => it.gives({ ...BOTH, cniVersion: "9.9.9" }),
    ],
  ];
  for (const [what, code, words, arrange] of broken) {
    it(`IPAM-02: an IPAM plugin that ${what} is error ${code}, its DEL is called and nothing is left`, () => {
      const pod = node.pod("broken");
      arrange(ipam);
      const { exitCode, error } = node.attach(pod);
      assert.deepEqual([exitCode, error?.code], [1, code], error?.msg);
      assert.match(error?.msg ?? "", words);
      assert.deepEqual(ipam.verbs, ["ADD", "DEL"]);
      assert.deepEqual(ipam.held, []);
      node.assertNothingLeft(pod);
    });
  }

  it("IPAM-02: ADD reports an IPAM plugin that cannot be executed with a clear error", () => {
    const pod = node.pod("missing");
    const missing = node.attach(pod, { ipam: { type: "not-there" } });
    assert.equal(missing.error?.code, 7);
    assert.match(missing.error?.msg ?? "", /failed to find plugin "not-there" in path \["\/.*\/plugins"\]/);
    writeFileSync(`${ipam.directory}/no-program`, "no program\n");
    const refused = node.attach(pod, { ipam: { type: "no-program" } });
    assert.equal(refused.error?.code, 5);
    assert.match(refused.error?.msg ?? "", /no-program: execute .*EACCES/);
    for (const type of ["drawbridge", "loopback"]) {
      const own = node.attach(pod, { ipam: { type } });
      assert.equal(own.error?.code, 2, own.stdout);
      assert.match(own.error?.msg ?? "", /is an interface plugin/);
    }
    assert.deepEqual(ipam.verbs, []);
    node.assertNothingLeft(pod);
  });

  it("IPAM-04: after an ADD that executes no IPAM plugin, DEL still calls the plugin of the attachment's earlier ADD", () => {
    const pod = node.pod("again");
    ipam.fails("DEL", { cniVersion: "1.0.0", code: 110, msg: "database is locked" });
    ipam.fails("ADD", "");
    assert.equal(node.attach(pod).exitCode, 1);
    writeFileSync(`${ipam.directory}/no-program`, "no program\n");
    for (const type of ["not-there", "no-program"]) assert.equal(node.attach(pod, { ipam: { type } }).exitCode, 1);
    assert.deepEqual(ipam.verbs, ["ADD", "DEL"]);
    ipam.fails("DEL", undefined);
    assert.equal(node.detach(pod, { ipam: { type: "no-program" } }).exitCode, 0);
    assert.deepEqual(ipam.verbs, ["ADD", "DEL", "DEL"]);
    node.assertNothingLeft(pod);
  });

  it("IPAM-02: our own executable under another name does not execute itself without end", () => {
    const pod = node.pod("alias");
    const alias = path.join(ipam.directory, "alias");
    writeFileSync(alias, `#!/bin/sh\nexec -a alias ${executable}\n`.replace("#!/bin/sh", "#!/bin/bash"), {
      mode: 0o755,
    });
    const { error } = node.attach(pod, { ipam: { type: "alias" } });
    assert.match(error?.msg ?? "", /"alias" is an interface plugin/);
    assert.match(error?.details ?? "", /from the IPAM plugin/);
  });

  it("IPAM-04: a DEL that the IPAM plugin refuses fails, but removes everything of ours, and can be repeated", () => {
    const pod = node.pod("stuck");
    for (const hide of [false, true]) {
      assert.equal(node.attach(pod).exitCode, 0);
      if (!hide) ipam.fails("DEL", { code: 11, msg: "database is away" });
      const wrong = hide ? node.changes({ ipam: { type: "not-there" } }) : node.changes();
      const stuck = del(wired, pod, wrong, { executable });
      if (hide) assert.equal(stuck.exitCode, 0, "DEL calls the plugin of the ADD, whatever the configuration now says");
      else assert.deepEqual([stuck.exitCode, stuck.error?.code, stuck.error?.msg], [1, 11, "database is away"]);
      assert.deepEqual(nodeState(wired.node), nothingHeld);
      assert.equal(ipam.held.length, hide ? 0 : 1);
      ipam.fails("DEL", undefined);
      assert.equal(node.detach(pod).exitCode, 0);
      assert.deepEqual(ipam.held, []);
      node.assertNothingLeft(pod);
    }
    const never = del(wired, pod, node.changes({ ipam: { type: "not-there" } }), { executable });
    assert.equal(never.error?.code, 7);
    assert.match(never.error?.msg ?? "", /failed to find plugin "not-there"/);
  });

  it("IPAM-04: after a change to host-local a DEL calls the plugin of the ADD, with the configuration of the ADD", () => {
    const pod = node.pod("changed");
    assert.equal(node.attach(pod, { "x-pool": "first" }).exitCode, 0);
    const { environment } = podCall("DEL", wired, pod);
    const outcome = rawCall(
      wired.node,
      { ...environment, CNI_COMMAND: "DEL", CNI_PATH: ipam.directory },
      JSON.stringify(configurationOf(wired)),
      executable,
    );
    assert.equal(outcome.exitCode, 0, outcome.stdout);
    assert.deepEqual(ipam.verbs, ["ADD", "DEL"]);
    assert.ok(ipam.calls.at(-1)?.stdin.includes('"x-pool":"first"'));
    node.assertNothingLeft(pod);
  });

  it("P16: keys below ipam whose types differ from host-local's are passed to the IPAM plugin unchecked", () => {
    const pod = node.pod("types");
    const others = {
      ipam: { type: ipam.type, ranges: { a: "10.0.0.0/8" }, subnet: ["x"], routes: "default", dataDir: "/x" },
    };
    const added = node.attach(pod, others);
    assert.equal(added.exitCode, 0, added.stdout);
    assert.ok(ipam.calls[0]?.stdin.includes('"ranges":{"a":"10.0.0.0/8"}'));
    const checked = check(wired, pod, JSON.parse(added.stdout), node.changes(others), { executable });
    assert.equal(checked.exitCode, 0, checked.stdout);
    assert.equal(node.detach(pod, others).exitCode, 0);
    node.assertNothingLeft(pod);
    const ours = node.attach(pod, { ipam: { ...others.ipam, type: "host-local" } });
    assert.equal(ours.error?.code, 7, "for host-local the types are checked");
  });

  it("P16: CHECK passes on the IPAM plugin's error about the addresses", () => {
    const pod = node.pod("checked");
    const added = node.attach(pod);
    assert.equal(added.exitCode, 0, added.stdout);
    ipam.fails("CHECK", { code: 120, msg: "10.99.0.5 belongs to pod b" });
    const prevResult: unknown = JSON.parse(added.stdout);
    const { exitCode, error } = check(wired, pod, prevResult, node.changes(), { executable });
    assert.deepEqual([exitCode, error?.code, error?.msg], [1, 120, "10.99.0.5 belongs to pod b"]);
    assert.equal(node.detach(pod).exitCode, 0);
    node.assertNothingLeft(pod);
  });

  it("P18: a DEL after an ADD that was killed while the IPAM plugin ran waits for the plugin, and then releases what it gave", async () => {
    const pod = node.pod("killed");
    ipam.does("ADD", SLOW);
    const running = startPlugin(wired.node, podCall("ADD", wired, pod, node.changes(), { executable }));
    while (ipam.calls.length === 0 || ipam.verbs[0] !== "ADD") await pause(5);
    await pause(100);
    running.kill("SIGKILL");
    assert.equal((await running.outcome).signal, "SIGKILL");
    assert.deepEqual(ipam.held, [], "the plugin still runs");
    const { exitCode, stdout } = node.detach(pod);
    assert.equal(exitCode, 0, stdout);
    // Without the wait the plugin's DEL would come first, and no DEL would release what its ADD gives then.
    await pause(1500);
    assert.deepEqual([ipam.verbs, ipam.held], [["ADD", "DEL"], []]);
    node.assertNothingLeft(pod);
  });

  it("P16: each STATUS is passed on to the IPAM plugin, and fails with the plugin's error", () => {
    const stdin = JSON.stringify(configurationOf(wired, node.changes()));
    const status = (): ReturnType<typeof rawCall> =>
      rawCall(wired.node, { CNI_COMMAND: "STATUS", CNI_PATH: ipam.directory }, stdin, executable);
    for (let count = 1; count <= 2; count++) {
      assert.deepEqual(status(), { exitCode: 0, stdout: "", stderr: "STATUS of fake IPAM\n" });
      assert.equal(ipam.verbs.length, count);
    }
    assert.equal(ipam.calls[0]?.stdin, stdin);
    ipam.fails("STATUS", { code: 50, msg: "the database is away" });
    const { exitCode, stdout } = status();
    assert.equal(exitCode, 1);
    assert.partialDeepStrictEqual(JSON.parse(stdout), { code: 50, msg: "the database is away" });
  });

  it("P16: GC is passed on to the IPAM plugin with and without a list, and fails with the plugin's error", () => {
    const collect = (list: Configuration): ReturnType<typeof rawCall> => {
      const stdin = JSON.stringify(configurationOf(wired, { ...node.changes(), ...list }));
      return rawCall(wired.node, { CNI_COMMAND: "GC", CNI_PATH: ipam.directory }, stdin, executable);
    };
    const list = { "cni.dev/valid-attachments": [] };
    assert.equal(collect({}).exitCode, 0);
    assert.equal(collect(list).exitCode, 0);
    assert.deepEqual(ipam.verbs, ["GC", "GC"]);
    assert.match(ipam.calls[1]?.stdin ?? "", /"cni\.dev\/valid-attachments":\[\]/);
    ipam.fails("GC", { code: 130, msg: "the database is away" });
    const { exitCode, stdout } = collect(list);
    assert.equal(exitCode, 1);
    assert.partialDeepStrictEqual(JSON.parse(stdout), { code: 130, msg: "the database is away" });
  });

  it("P16: GC calls the IPAM plugin's DEL for an attachment that has ended, which releases its addresses", () => {
    const [ended, alive] = [node.pod("ended"), node.pod("alive")];
    assert.equal(node.attach(ended).exitCode, 0);
    ipam.gives({ ips: [{ address: "10.99.0.6/24" }] });
    assert.equal(node.attach(alive).exitCode, 0);
    const file = `${wired.node.runDir}/attachments/drawbridge/${ended.containerId}:eth0.json`;
    const record = JSON.parse(readFileSync(file, "utf8")) as { netns: object; hostInterface: string };
    writeFileSync(file, JSON.stringify({ ...record, netns: { path: "/run/netns/no-such-pod", inode: "1" } }));
    wired.node.exec("ip", ["link", "del", record.hostInterface]);
    const stdin = JSON.stringify(configurationOf(wired, { ...node.changes(), "cni.dev/valid-attachments": [] }));
    // libcni sets all variables, and leaves those empty that GC does not have.
    const empty = { CNI_CONTAINERID: "", CNI_NETNS: "", CNI_IFNAME: "", CNI_ARGS: "" };
    const environment = { ...empty, CNI_COMMAND: "GC", CNI_PATH: ipam.directory };
    const { exitCode, stdout } = rawCall(wired.node, environment, stdin, executable);
    assert.equal(exitCode, 0, stdout);
    assert.deepEqual(ipam.verbs, ["ADD", "ADD", "DEL", "GC"]);
    assert.deepEqual(ipam.held, [`${alive.containerId}:eth0`]);
    assert.equal(ipam.calls[3]?.environment["CNI_CONTAINERID"], "", "GC itself names no attachment");
    assert.equal(node.detach(alive).exitCode, 0);
    for (const pod of [ended, alive]) lab.remove(pod);
    assert.deepEqual(readdirSync(`${wired.node.runDir}/delegations/drawbridge`), []);
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("IPAM-04 ENDED-03: an ADD calls the IPAM plugin's DEL for an ended sandbox with the sandbox's own pod and configuration, and calls it again after a refusal", async () => {
    const gone = node.pod("gone");
    assert.equal(node.attach(gone, { "x-pool": "first" }).exitCode, 0);
    lab.remove(gone);
    await until(() => nodeState(wired.node).podLinks.length === 0, "the kernel has removed the link", 20_000);
    const [mark = "", pending = ""] = ["ended", "delegations"].map(
      (place) => `${wired.node.runDir}/${place}/drawbridge/${gone.containerId}:eth0`,
    );
    mkdirSync(path.dirname(mark), { recursive: true });
    const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    for (const isRefused of [true, false]) {
      writeFileSync(mark, JSON.stringify({ bootId, since: uptime() - 1000 }));
      utimesSync(pending, 1000, 1000);
      ipam.fails("DEL", isRefused ? { code: 11, msg: "database is away" } : undefined);
      ipam.gives({ ips: [{ address: "10.99.0.6/24" }] });
      const next = node.pod("next");
      assert.equal(node.attach(next).exitCode, 0);
      const [call, ...others] = ipam.calls.filter(({ verb }) => verb === "DEL");
      const { CNI_CONTAINERID, CNI_NETNS, CNI_ARGS = "" } = call?.environment ?? {};
      assert.deepEqual([CNI_CONTAINERID, CNI_NETNS, others], [gone.containerId, "", []]);
      // The record, which names the pod, goes with the first call.
      assert.equal(/K8S_POD_NAME=(\w+);/.exec(CNI_ARGS)?.[1], isRefused ? gone.name : undefined);
      assert.ok(call?.stdin.includes('"x-pool":"first"'));
      assert.deepEqual([existsSync(mark), existsSync(pending)], [isRefused, isRefused]);
      ipam.fails("DEL", undefined);
      assert.equal(node.detach(next).exitCode, 0);
      ipam.reset();
    }
    assert.deepEqual(nodeState(wired.node), nothingHeld);
  });

  it("P16: GC repeats the DEL of an ADD without a record until the IPAM plugin succeeds, once that ADD is long over", async () => {
    const pod = node.pod("killed");
    ipam.does("ADD", SLOW);
    const running = startPlugin(wired.node, podCall("ADD", wired, pod, node.changes(), { executable }));
    while (ipam.verbs[0] !== "ADD") await pause(5);
    await pause(100);
    running.kill("SIGKILL");
    await running.outcome;
    await pause(1500);
    const held = [`${pod.containerId}:eth0`];
    assert.deepEqual(ipam.held, held, "the plugin gave the address after the kill");
    const collect = (...list: Configuration[]): ReturnType<typeof rawCall> => {
      const stdin = JSON.stringify(configurationOf(wired, { ...node.changes(), "cni.dev/valid-attachments": list }));
      return rawCall(wired.node, { CNI_COMMAND: "GC", CNI_PATH: ipam.directory }, stdin, executable);
    };
    assert.equal(collect().exitCode, 0);
    assert.deepEqual(ipam.held, held, "the ADD may be under way");
    utimesSync(`${wired.node.runDir}/delegations/drawbridge/${held.join()}`, 1000, 1000);
    assert.equal(collect({ containerID: pod.containerId, ifname: "eth0" }).exitCode, 0);
    assert.deepEqual(ipam.held, held, "the runtime lists the attachment");
    ipam.fails("DEL", { code: 11, msg: "database is away" });
    assert.partialDeepStrictEqual(JSON.parse(collect().stdout), { code: 11, msg: "database is away" });
    ipam.fails("DEL", undefined);
    assert.equal(collect().exitCode, 0);
    assert.deepEqual(ipam.held, []);
    node.assertNothingLeft(pod);
  });

  it("IPAM-06: a background process of the IPAM plugin's ADD delays neither that ADD nor the DEL", () => {
    const pod = node.pod("daemon");
    ipam.does("ADD", BACKGROUND);
    try {
      const added = node.attach(pod);
      assert.equal(added.exitCode, 0, added.stdout);
      assert.ok(added.milliseconds < 8000, `ADD took ${added.milliseconds} ms`);
      const deleted = node.detach(pod);
      assert.equal(deleted.exitCode, 0, deleted.stdout);
      assert.ok(deleted.milliseconds < 8000, `DEL took ${deleted.milliseconds} ms`);
      node.assertNothingLeft(pod);
    } finally {
      killBackground();
    }
  });

  it("IPAM-06: after a killed ADD, DEL first waits for the IPAM plugin's background process, and later goes on without it", async () => {
    const pod = node.pod("orphan");
    ipam.does("ADD", `${BACKGROUND}\n ${SLOW}`);
    const running = startPlugin(wired.node, podCall("ADD", wired, pod, node.changes(), { executable }));
    while (!existsSync(`${ipam.directory}/background`)) await pause(5);
    running.kill("SIGKILL");
    await running.outcome;
    try {
      const early = node.detach(pod);
      assert.equal(early.error?.code, 11, early.stdout);
      const directory = `${wired.node.runDir}/delegations/drawbridge`;
      const [name = ""] = readdirSync(directory);
      utimesSync(`${directory}/${name}`, Date.now() / 1000 - 120, Date.now() / 1000 - 120);
      const late = node.detach(pod);
      assert.equal(late.exitCode, 0, late.stdout);
      assert.deepEqual([ipam.verbs, ipam.held], [["ADD", "DEL"], []]);
      node.assertNothingLeft(pod);
    } finally {
      killBackground();
    }
  });

  function killBackground(): void {
    wired.node.exec("sh", ["-c", `kill $(cat ${ipam.directory}/background)`]);
  }
});

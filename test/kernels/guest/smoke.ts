import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import process from "node:process";
import { setTimeout as pause } from "node:timers/promises";
import { CHECKSUM_PROGRAM } from "../../../kernel/bpf/checksum_filter.ts";
import { hasOwnProgram, type OwnProgram } from "../../../kernel/bpf/own_program.ts";
import { PORT_PROGRAM } from "../../../kernel/bpf/port_table.ts";
import { CLI_DIRECTORY } from "../../support/cli/program.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { add, check, del, LAB_BRIDGE } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import { HAS_IPV6 } from "../../lab/namespace.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { lacks } from "./kernel.ts";
import { onlyFromA, serviceObjects } from "./objects.ts";

const POD = "10.244.1.3";
const SERVICE = "10.96.0.10";
const LISTENERS = ["TCP-LISTEN:8080,fork,reuseaddr", "UDP-RECVFROM:8080,fork", "SCTP-LISTEN:8080,fork,reuseaddr"];

/**
 * User Mode Linux does not describe its types, which the filter of checksums needs, and takes from programs only reads at
 * even places, since it does not say that its processor can do more.
 */
const CAN_HAVE_PROGRAMS = existsSync("/sys/kernel/btf/vmlinux");

/** One node with a daemon and three pods: each test is a subject of the table, and they build on one another. */
describe("smoke", function () {
  this.timeout(600_000);
  let lab: Lab;
  let wired: WiredNode;
  let other: WiredNode;
  let policyd: PolicydNode;
  const pods = new Map<string, LabPod>();
  const results = new Map<string, unknown>();
  const servers: ChildProcess[] = [];

  before(() => {
    lab = createLab("smoke");
    ({ node1: wired, node2: other } = twoNodes(lab));
    policyd = new PolicydNode(lab, wired, "60s");
  });
  after(() => {
    for (const server of servers) server.kill("SIGKILL");
    lab?.destroy();
  });

  /** Returns whether a server answers a pod. */
  function answers(name: string, protocol: "TCP" | "UDP" | "SCTP", address: string, port: number, bind = ""): boolean {
    const wait = protocol === "UDP" ? "" : ",connect-timeout=3";
    const target = `${protocol}:${address}:${port}${wait}${bind}`;
    // SCTP has no half-closed associations, so the client only reads.
    const args = protocol === "SCTP" ? ["-u", "-T3", target, "-"] : ["-T3", "-t3", "-", target];
    const run = pods.get(name)?.inside(() => spawnSync("socat", args, { input: "q\n", encoding: "utf8" }));
    return run?.stdout.includes("hello") === true;
  }

  async function eventually(what: string, holds: () => boolean): Promise<void> {
    for (let left = 60; !holds(); left--) {
      assert.ok(left > 0, what);
      await pause(500);
    }
  }

  it("plugin: ADD, CHECK and DEL without a daemon, in each family that the kernel has", () => {
    const pod = lab.pod("alone");
    const overrides = { ipMasq: true };
    const { error, result } = add(other, pod, overrides);
    assert.deepEqual(error, undefined);
    assert.deepEqual(check(other, pod, result, overrides).error, undefined);
    pod.exec("ping", ["-c1", "-W5", "10.244.2.1"]);
    if (HAS_IPV6) pod.exec("ping", ["-c1", "-W5", "fd00:244:2::1"]);
    assert.equal(del(other, pod, overrides).error, undefined);
  });

  it("daemon: it starts, and three pods are attached; it says what its drop log lacks", async () => {
    policyd.put("objects.yaml", serviceObjects());
    const hasLog = !lacks("NETFILTER_NETLINK_LOG");
    if (!hasLog)
      await assert.rejects(policyd.start(["--drop-log"]), /exit code 1;.*NETLINK_LOG.*modprobe nfnetlink_log/s);
    const daemon = await policyd.start();
    for (const name of ["a", "b", "c"]) {
      const pod = lab.pod(name);
      pods.set(name, pod);
      const { error, result } = add(wired, pod, policyd.overrides);
      assert.deepEqual(error, undefined);
      results.set(name, result);
    }
    const { problems } = daemon.status();
    const isOfLog = (line: string): boolean => line.includes("CONFIG_NETFILTER_NETLINK_LOG");
    assert.deepEqual([problems.some(isOfLog), problems.filter((line) => !isOfLog(line))], [!hasLog, []]);
    assert.equal(daemon.status().attachments, 3);
    pods.get("b")?.inside(() => {
      for (const listener of LISTENERS)
        servers.push(spawn("socat", [listener, "SYSTEM:echo hello"], { stdio: "ignore" }));
    });
    await eventually("the servers of b listen", () => answers("a", "TCP", POD, 8080));
  });

  it("programs: the bridge has its table of ports and its filter of checksums, where the kernel can have them", () => {
    const has = (program: OwnProgram): boolean =>
      hasOwnProgram(wired.node.programs, program, wired.node.link(LAB_BRIDGE).index);
    assert.deepEqual([has(PORT_PROGRAM), has(CHECKSUM_PROGRAM)], [CAN_HAVE_PROGRAMS, CAN_HAVE_PROGRAMS]);
  });

  it("Services: a pod reaches a cluster IP by TCP and by UDP", async () => {
    for (const protocol of ["TCP", "UDP"] as const)
      await eventually(protocol, () => answers("a", protocol, SERVICE, 80));
  });

  it("SCTP: a real socket reaches a pod by its address and by a Service", async () => {
    await eventually("pod", () => answers("a", "SCTP", POD, 8080));
    await eventually("Service", () => answers("a", "SCTP", SERVICE, 80));
  });

  it("policies: what a policy denies stops, in TCP, UDP and SCTP, and passes when the policy is gone", async () => {
    policyd.put("policy.yaml", onlyFromA());
    await eventually("the policy is in force", () => !answers("c", "TCP", POD, 8080));
    for (const protocol of ["TCP", "UDP", "SCTP"] as const) {
      await eventually(`a ${protocol}`, () => answers("a", protocol, SERVICE, 80));
      assert.ok(!answers("c", protocol, POD, 8080) && !answers("c", protocol, SERVICE, 80), `c ${protocol}`);
    }
  });

  it("guard: a pod with another's address reaches nobody", async () => {
    const c = pods.get("c");
    c?.exec("ip", ["address", "add", "10.244.1.2/32", "dev", "eth0"]);
    assert.ok(!answers("c", "TCP", POD, 8080, ",bind=10.244.1.2"));
    c?.exec("ip", ["address", "del", "10.244.1.2/32", "dev", "eth0"]);
    policyd.put("policy.yaml", "");
    await eventually("c reaches b again", () => answers("c", "TCP", POD, 8080));
  });

  it("fragments: large datagrams arrive in each family, and shares are those of the memory that the kernel has", () => {
    const ping = (address: string): string => pods.get("a")?.exec("ping", ["-c1", "-W5", "-s", "3000", address]) ?? "";
    for (const address of [POD, "10.244.1.1"]) assert.match(ping(address), / 0% /);
    if (!HAS_IPV6) return;
    for (const address of ["fd00:244:1::3", "fd00:244:1::1"]) assert.match(ping(address), / 0% /);
    const bytes = Number(wired.node.readSysctl("net/netfilter/nf_conntrack_frag6_high_thresh"));
    const rules = wired.node.exec("nft", ["list", "chain", "inet", "drawbridge", "fragments6"]);
    const [, pool = "0"] = /\} limit rate (\d+)\/second/.exec(rules) ?? [];
    // With a quarter of the memory for the pool, each fragment of 5 KiB kept for up to two seconds after its own.
    assert.ok(Number(pool) > 0 && Number(pool) * 5 * 1024 * 3 * 4 <= bytes * 1.01, `${rules}: ${bytes} bytes`);
  });

  it("repair: tables, the bridge's address and its state come back", async () => {
    const { node } = wired;
    node.exec("nft", ["delete", "table", "inet", "drawbridge"]);
    node.exec("ip", ["address", "del", "10.244.1.1/24", "dev", LAB_BRIDGE]);
    node.exec("ip", ["link", "set", LAB_BRIDGE, "down"]);
    await eventually("the Service answers", () => answers("a", "TCP", SERVICE, 80));
    await eventually("the address is back", () =>
      node.exec("ip", ["address", "show", LAB_BRIDGE]).includes("10.244.1.1/24"),
    );
  });

  it("doctor: it reports no error, sees all of the kernel, and names the options for what the kernel lacks", () => {
    const places = ["--state-directory", wired.node.runDir, "--socket", policyd.socketPath, "--bridge", LAB_BRIDGE];
    const only = "kernel-version,kernel-features,conntrack,fragments,tables,node-state,checksum-filter";
    const args = ["node", "doctor", "--network-namespace", wired.node.path, ...places, "--only", only, "-o", "json"];
    const { stdout, stderr } = spawnSync(process.execPath, [`${CLI_DIRECTORY}/drawbridge.js`, ...args], {
      encoding: "utf8",
    });
    assert.notEqual(stdout, "", stderr);
    const { findings, unseen } = JSON.parse(stdout) as { findings: { severity: string }[]; unseen: unknown[] };
    assert.deepEqual([findings.filter(({ severity }) => severity === "error"), unseen], [[], []]);
    for (const [option, isMissing] of [
      ["CONFIG_NETFILTER_NETLINK_LOG", lacks("NETFILTER_NETLINK_LOG")],
      ["CONFIG_DEBUG_INFO_BTF", !CAN_HAVE_PROGRAMS],
    ] as const)
      assert.equal(JSON.stringify(findings).includes(option), isMissing, stdout);
  });

  it("DEL: the pods go, and CHECK says so", () => {
    for (const [name, pod] of pods) {
      const isThere = (): boolean => check(wired, pod, results.get(name), policyd.overrides).error === undefined;
      assert.ok(isThere(), name);
      assert.equal(del(wired, pod, policyd.overrides).error, undefined);
      assert.ok(!isThere(), name);
    }
  });
});

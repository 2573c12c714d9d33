import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { mkdirSync, readdirSync, renameSync, rmSync } from "node:fs";
import process from "node:process";
import * as v from "valibot";
import { carryOut } from "../../cli/node/cleanup/carry_out.ts";
import { type CleanupPlan, cleanupPlan } from "../../cli/node/cleanup/plan.ts";
import { systemMachine } from "../../cli/node/machine/system_machine.ts";
import { formatAddress } from "../../kernel/ip/address.ts";
import { podAddresses } from "../support/cni/container_state.ts";
import { nodeState, nothingHeld } from "../support/cni/kernel_state.ts";
import { createLab, type Lab, type LabPod } from "../lab/lab.ts";
import { type TwoNodes, twoNodes } from "../lab/topology.ts";
import { requireKernel } from "../support/privilege.ts";
import { holdToFixture } from "../support/runtimes/fixture.ts";
import { serveName } from "../support/runtimes/http_server.ts";
import { takeCalls } from "../support/runtimes/recorder.ts";
import { RuntimeNode } from "../support/runtimes/runtime_node.ts";
import { CONTAINERD, CRIO, OLD_CONTAINERD, OLD_CRIO, type Program } from "./programs.ts";

const PROGRAMS = process.env["DRAWBRIDGE_RUNTIMES"] ?? "";
const HOST_PORT = 8080;
const CONTAINER_PORT = 80;
/** Bits per second. */
const RATE = 50_000_000;
/** Bits: the value that containerd and CRI-O send for every pod with a limit. */
const BURST = 2 ** 32 - 1;

/** A line that the checks print for each call of a client: the verb and the outcome. */
type Step = readonly [verb: string, outcome: string];

const resultSchema = v.looseObject({ cniVersion: v.string(), ips: v.array(v.looseObject({ address: v.string() })) });
/** The results of ocicni, one for each network. */
const crioSchema = v.pipe(v.array(v.looseObject({ Result: resultSchema })), v.length(1));
/** The result of go-cni: addresses by the name of the interface in the pod. */
const containerdSchema = v.looseObject({
  Interfaces: v.record(
    v.string(),
    v.looseObject({ IPConfigs: v.nullish(v.array(v.looseObject({ IP: v.string() }))), Sandbox: v.nullish(v.string()) }),
  ),
});

describe("container runtimes on what policyd installs", function () {
  this.timeout(120_000);
  let lab: Lab;
  let net: TwoNodes;
  let node: RuntimeNode;
  let a: LabPod;
  let b: LabPod;
  let c: LabPod;
  let servers: ChildProcess[] = [];
  let steps: Step[] = [];

  beforeEach(async function () {
    requireKernel(this);
    lab = createLab("runtimes");
    net = twoNodes(lab);
    a = lab.pod("a");
    b = lab.pod("b");
    c = lab.pod("c");
    node = await RuntimeNode.start(lab, net.node1);
    steps = [];
  });
  afterEach(() => {
    for (const [verb, outcome] of steps) console.log(`      ${verb.padEnd(22)} ${outcome}`);
    for (const server of servers) server.kill();
    servers = [];
    lab?.destroy();
  });

  /** Makes one call to a client's library. @returns its answer; undefined when it printed none */
  function call({ name }: Program, verb: string, request: object): unknown {
    const places = { confDir: node.configurations, cacheDir: "/var/lib/cni", binDirs: [node.binaries] };
    const { status, stdout, stderr } = node.run(
      `${PROGRAMS}/${name}`,
      [verb],
      JSON.stringify({ ...places, ...request }),
    );
    steps.push([verb, status === 0 ? stdout.trim() || "ok" : `exit code ${status}: ${stderr.trim()}`]);
    assert.equal(status, 0, `${name} ${verb}: ${stderr}`);
    return stdout.trim() === "" ? undefined : (JSON.parse(stdout) as unknown);
  }

  /** Makes a call that must fail. @returns its standard error */
  function failedCall({ name }: Program, verb: string, request: object): string {
    const places = { confDir: node.configurations, cacheDir: "/var/lib/cni", binDirs: [node.binaries] };
    const program = `${PROGRAMS}/${name}`;
    const { status, stdout, stderr } = node.run(program, [verb], JSON.stringify({ ...places, ...request }));
    steps.push([verb, `exit code ${status}: ${stderr.trim()}`]);
    assert.notEqual(status, 0, `${name} ${verb}: ${stdout}`);
    return stderr;
  }

  function podOf(pod: LabPod, more: object = {}): object {
    return {
      pod: {
        name: pod.name,
        namespace: "default",
        uid: `uid-${pod.name}`,
        id: pod.containerId,
        netns: pod.path,
        cgroupPath: `/kubepods.slice/${pod.name}`,
        annotations: { "example.org/note": "x" },
        ...more,
      },
    };
  }

  /**
   * Returns a pod's request with a host port and limits, in the keys of a Go structure, which our plugin reads in any
   * case.
   */
  function withPortAndLimits(pod: LabPod): object {
    const port = { HostPort: HOST_PORT, ContainerPort: CONTAINER_PORT, Protocol: "tcp", HostIP: "" };
    const bandwidth = { IngressRate: RATE, IngressBurst: BURST, EgressRate: RATE, EgressBurst: BURST };
    return podOf(pod, { portMappings: [port], bandwidth });
  }

  /** Starts a server in a pod that answers HTTP with the pod's name. */
  function serve(pod: LabPod): void {
    servers.push(serveName(lab, pod, CONTAINER_PORT));
  }

  /** Returns the pod's addresses. @throws AssertionError unless it answers at one address of each family */
  function mustWork(pod: LabPod): readonly string[] {
    const addresses = podAddresses(pod).map((text) => text.split("/")[0] ?? "");
    assert.equal(addresses.length, 2, `${pod.name}: one address of each family: ${addresses.join()}`);
    for (const address of addresses) get(`${host(address)}/name`, pod.name);
    return addresses;
  }

  function mustAnswerAtHostPort(pod: LabPod): void {
    for (const address of net.node1.addresses.map(formatAddress)) get(`${host(address)}:${HOST_PORT}/name`, pod.name);
    const limited = node.wired.node.exec("tc", ["-d", "qdisc", "show"]);
    assert.match(limited, /rate 50Mbit/, "the pod's bandwidth is limited");
  }

  function get(url: string, expected: string): void {
    assert.equal(net.router.exec("busybox", ["wget", "-q", "-O", "-", `http://${url}`]), expected, url);
  }

  function crioAddresses(answer: unknown): readonly string[] {
    return v.parse(crioSchema, answer).flatMap(({ Result: { ips } }) => ips.map(({ address }) => address));
  }

  function conclude(program: Program, addresses: readonly string[]): Promise<void> {
    const calls = takeCalls(node.calls);
    const failed = calls.filter(({ exitCode }) => exitCode !== 0);
    assert.deepEqual(failed, [], "no call of the plugin failed");
    assert.deepEqual(node.cached, [], "libcni keeps nothing in its cache");
    holdToFixture(program.name, program.title, calls, lab.scratch);
    return node.mustHoldNothing(addresses);
  }

  for (const program of [CRIO, OLD_CRIO]) {
    const hasGc = program === CRIO;
    it(`RUNTIME-01: ${program.title} starts, checks${hasGc ? ", collects" : ""} and stops pods`, async () => {
      call(program, "Status", {});
      const answer = call(program, "SetUpPod", withPortAndLimits(a));
      // This call sends CHECK; CRI-O fails the sandbox if it fails.
      assert.deepEqual(
        crioAddresses(call(program, "GetPodNetworkStatus", withPortAndLimits(a))),
        crioAddresses(answer),
      );
      call(program, "SetUpPod", podOf(b));
      call(program, "GetPodNetworkStatus", podOf(b));
      serve(a);
      serve(b);
      const addresses = [...mustWork(a), ...mustWork(b)];
      mustAnswerAtHostPort(a);
      call(program, "Status", {});
      if (hasGc) {
        const valid = [withPortAndLimits(a), podOf(b)].map((request) => (request as { readonly pod: unknown }).pod);
        call(program, "GC", { valid });
        mustWork(a);
        mustWork(b);
        call(program, "GC", { valid: valid.slice(0, 1) });
        assert.deepEqual(podAddresses(b), [], "a pod that is not valid is detached");
        mustWork(a);
        mustAnswerAtHostPort(a);
      }
      call(program, "TearDownPod", withPortAndLimits(a));
      call(program, "TearDownPod", podOf(b));
      call(program, "TearDownPod", withPortAndLimits(a));
      await conclude(program, addresses);
    });
  }

  for (const program of [CONTAINERD, OLD_CONTAINERD]) {
    it(`RUNTIME-01: ${program.title} starts, checks and stops pods`, async () => {
      call(program, "Status", {});
      const { Interfaces } = v.parse(containerdSchema, call(program, "Setup", withPortAndLimits(a)));
      assert.deepEqual(
        Interfaces["eth0"]?.IPConfigs?.map(({ IP }) => `${IP}/${IP.includes(":") ? 128 : 32}`),
        podAddresses(a),
      );
      call(program, "Setup", podOf(b));
      serve(a);
      serve(b);
      const addresses = [...mustWork(a), ...mustWork(b)];
      mustAnswerAtHostPort(a);
      call(program, "Status", {});
      call(program, "Check", withPortAndLimits(a));
      call(program, "Remove", withPortAndLimits(a));
      // A sandbox whose namespace is gone, as after a node's restart, and one that is removed twice.
      call(program, "Remove", podOf(b, { netns: "" }));
      call(program, "Remove", withPortAndLimits(a));
      await conclude(program, addresses);
    });
  }

  for (const program of [CONTAINERD, OLD_CONTAINERD, CRIO, OLD_CRIO]) {
    const isContainerd = program === CONTAINERD || program === OLD_CONTAINERD;
    const [attach, detach] = isContainerd ? ["Setup", "Remove"] : ["SetUpPod", "TearDownPod"];
    it(`UNINSTALL-03: ${program.title} deletes pods after a cleanup, without another add-on`, async () => {
      call(program, attach, withPortAndLimits(a));
      call(program, attach, podOf(b));
      await node.stopDaemon();
      const { place } = node;
      const machine = systemMachine(lab.calls);
      const cleanUp = (): CleanupPlan =>
        node.wired.node.inside(() => {
          const plan = cleanupPlan(machine.readInventory(place), true);
          const outcomes = carryOut(machine, plan.removals);
          assert.ok(
            outcomes.every(({ failure }) => failure === undefined),
            JSON.stringify(outcomes),
          );
          return plan;
        });
      assert.equal(cleanUp().pods.length, 2);
      const list = `${node.configurations}/zz-drawbridge-detach.conflist`;
      // containerd and CRI-O need different files, without which a pod waits for another add-on.
      if (isContainerd) {
        renameSync(list, `${list}.away`);
        assert.match(failedCall(program, detach, podOf(b)), /cni plugin not initialized|no network config found/);
        renameSync(`${list}.away`, list);
      } else {
        renameSync(node.binaries, `${node.binaries}.away`);
        mkdirSync(node.binaries);
        assert.match(failedCall(program, detach, podOf(b)), /failed to find plugin "drawbridge"/);
        rmSync(node.binaries, { recursive: true });
        renameSync(`${node.binaries}.away`, node.binaries);
      }
      assert.match(failedCall(program, attach, podOf(c)), /uninstalled/);
      // As containerd does after a failed ADD.
      if (isContainerd) call(program, detach, podOf(c));
      call(program, detach, withPortAndLimits(a));
      call(program, detach, podOf(b));
      assert.deepEqual(cleanUp().pods, []);
      assert.deepEqual(readdirSync(node.configurations), []);
      assert.deepEqual(readdirSync(node.installed), []);
      assert.deepEqual(node.cached, []);
      assert.deepEqual(nodeState(node.wired.node), nothingHeld);
    });
  }
});

/** Returns an address in the form of a URL. */
function host(address: string): string {
  return address.includes(":") ? `[${address}]` : address;
}

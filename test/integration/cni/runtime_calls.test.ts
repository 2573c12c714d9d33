import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { formatAddress } from "../../../kernel/ip/address.ts";
import type { Lab, LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { twoNodes } from "../../lab/topology.ts";
import { requireProgram } from "../../support/privilege.ts";
import { suiteLab } from "../../support/suite_lab.ts";
import { type FixtureCall, fixtureNames, isObject, readFixture, shapeOf } from "../../support/runtimes/fixture.ts";
import { RuntimeNode } from "../../support/runtimes/runtime_node.ts";
import { serveName } from "../../support/runtimes/http_server.ts";
import { podAddresses } from "../../support/cni/container_state.ts";

/** The most network namespaces of one fixture. */
const PODS = 2;
/** The host port and the port of the pod in all recordings. */
const HOST_PORT = 8080;
const CONTAINER_PORT = 80;

describe("recorded calls of container runtimes", function () {
  this.timeout(60_000);
  let lab: Lab;
  let node: RuntimeNode;
  let router: LabNamespace;
  let pods: readonly LabPod[] = [];
  let servers: readonly ChildProcess[] = [];

  before(async function () {
    requireProgram(this, "busybox");
    lab = suiteLab(this, "runtime-calls");
    const net = twoNodes(lab);
    ({ router } = net);
    pods = Array.from({ length: PODS }, (_, i) => lab.pod(`pod-${i}`));
    servers = pods.map((pod) => serveName(lab, pod, CONTAINER_PORT));
    node = await RuntimeNode.start(lab, net.node1);
  });
  after(() => {
    for (const server of servers) server.kill();
  });

  it("RUNTIME-01: there is a recording of each runtime, with its own spelling of keys and its own verbs", () => {
    assert.deepEqual(fixtureNames(), ["containerd", "containerd_1_6", "crio", "crio_1_24", "podman"]);
    const verbs = (name: string): readonly string[] => [
      ...new Set(readFixture(name).calls.map(({ environment }) => environment["CNI_COMMAND"] ?? "")),
    ];
    assert.deepEqual(verbs("crio").toSorted(), ["ADD", "CHECK", "DEL", "GC", "STATUS", "VERSION"]);
    assert.deepEqual(verbs("crio_1_24").toSorted(), ["ADD", "CHECK", "DEL", "VERSION"]);
    assert.deepEqual(verbs("podman").toSorted(), ["ADD", "DEL", "VERSION"]);
    assert.match(JSON.stringify(readFixture("containerd").calls), /"HostPort":8080/);
    assert.match(JSON.stringify(readFixture("crio").calls), /"hostPort":8080/);
  });

  for (const name of fixtureNames()) {
    const { client, calls } = readFixture(name);
    it(`RUNTIME-01: the recorded calls of ${client} get the recorded answers, and leave nothing`, async () => {
      const replay = new Replay(node, lab.scratch, pods, router);
      for (const [i, call] of calls.entries()) replay.call(call, `call ${i} of ${name}`);
      assert.ok(replay.addresses.length > 0);
      await node.mustHoldNothing(replay.addresses);
    });
  }
});

/** Returns the part of a request that describes the pod beyond its network. */
function runtimeConfigOf(stdin: unknown): Readonly<Record<string, unknown>> {
  const { runtimeConfig } = isObject(stdin) ? stdin : {};
  return isObject(runtimeConfig) ? runtimeConfig : {};
}

/** Replays the calls of one runtime on a node, with the values of this run in place of the recorded ones. */
class Replay {
  readonly addresses: string[] = [];
  readonly #node: RuntimeNode;
  readonly #scratch: string;
  readonly #pods: readonly LabPod[];
  readonly #client: LabNamespace;
  /** The present text for each text of a recorded result: names of links, MACs and addresses. */
  readonly #values = new Map<string, string>();

  /** @param client the namespace from which host ports are asked */
  constructor(node: RuntimeNode, scratch: string, pods: readonly LabPod[], client: LabNamespace) {
    this.#node = node;
    this.#client = client;
    this.#scratch = scratch;
    this.#pods = pods;
  }

  call({ plugin, environment, stdin, exitCode, answer }: FixtureCall, title: string): void {
    const env = Object.fromEntries(Object.entries(environment).map(([key, value]) => [key, this.#text(value)]));
    const input = JSON.stringify(this.#json(stdin));
    const ended = this.#node.run(`${this.#node.installed}/${plugin}`, [], input, env);
    const what = `${title}, ${environment["CNI_COMMAND"]}: ${ended.stdout}${ended.stderr}`;
    assert.equal(ended.status, exitCode, what);
    const now: unknown = ended.stdout === "" ? null : JSON.parse(ended.stdout);
    assert.deepEqual(shapeOf(now), shapeOf(answer), what);
    if (environment["CNI_COMMAND"] !== "ADD") return;
    this.#learn(answer, now);
    if (plugin !== "drawbridge") return;
    this.#mustBeAttached(env["CNI_NETNS"], now);
    const { portMappings, bandwidth } = runtimeConfigOf(stdin);
    if (portMappings !== undefined) this.#mustAnswerAtHostPort(env["CNI_NETNS"]);
    const { node } = this.#node.wired;
    if (bandwidth !== undefined) assert.match(node.exec("tc", ["qdisc", "show"]), /rate 50Mbit/, what);
  }

  #mustBeAttached(path: string | undefined, result: unknown): void {
    const pod = this.#pods.find((candidate) => candidate.path === path);
    assert.ok(pod !== undefined && isObject(result) && Array.isArray(result["ips"]));
    const ips = result["ips"].map((ip: unknown) => (isObject(ip) ? String(ip["address"]) : ""));
    assert.deepEqual(ips, podAddresses(pod));
    this.addresses.push(...ips.map((address) => address.split("/")[0] ?? ""));
  }

  #mustAnswerAtHostPort(path: string | undefined): void {
    const name = this.#pods.find((pod) => pod.path === path)?.name;
    for (const address of this.#node.wired.addresses.map(formatAddress)) {
      const url = `http://${address.includes(":") ? `[${address}]` : address}:${HOST_PORT}/name`;
      assert.equal(this.#client.exec("busybox", ["wget", "-q", "-O", "-", url]), name, url);
    }
  }

  /** Remembers the present text for each recorded one. Both values have the same shape. */
  #learn(recorded: unknown, now: unknown): void {
    if (typeof recorded === "string" && typeof now === "string") this.#values.set(recorded, now);
    if (Array.isArray(recorded) && Array.isArray(now)) {
      for (const [i, item] of recorded.entries()) this.#learn(item, now[i]);
    } else if (isObject(recorded) && isObject(now)) {
      for (const [key, member] of Object.entries(recorded)) this.#learn(member, now[key]);
    }
  }

  #json(value: unknown): unknown {
    if (typeof value === "string") return this.#values.get(value) ?? this.#text(value);
    if (Array.isArray(value)) return value.map((item) => this.#json(item));
    if (!isObject(value)) return value;
    return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, this.#json(member)]));
  }

  #text(text: string): string {
    const namespace = (_: string, index: string): string => this.#pods[Number(index)]?.path ?? "";
    return text.replaceAll("${scratch}", this.#scratch).replaceAll(/\$\{netns (\d+)\}/g, namespace);
  }
}

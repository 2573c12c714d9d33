import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import fc from "fast-check";
import type { Face } from "../../../cni/plugin.ts";
import { changeLink, deleteLink } from "../../../kernel/route/link.ts";
import { configurationOf, pluginAs } from "../../lab/cni.ts";
import { createLab, type Lab, type LabPod } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { type NetworkState, networkState } from "../../lab/network_state.ts";
import { twoNodes, type WiredNode } from "../../lab/topology.ts";
import { type MutatedCall, mutatedCalls } from "../../support/cni/mutation.ts";
import { requireKernel } from "../../support/privilege.ts";
import { rawCall, type RawOutcome } from "../../support/cni/raw_call.ts";

const CALLS = process.env["DRAWBRIDGE_FULL"] === "1" ? 1000 : 200;
const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 0x7fff_ffff);
const SLOWEST_MILLISECONDS = 1000;
/** How many calls share one read of all that two namespaces hold, because it takes some tenths of a second. */
const CALLS_PER_LOOK = 10;

/** Errors of calls that are refused before they make anything: those of the specification, and ours from 100 on. */
const gateCodes: readonly number[] = [1, 2, 4, 6, 7, 8, 103];

/** The default directories of the machine, which no configuration of this test names. */
const machineDirectories = ["/var/lib/cni", "/run/drawbridge"];

const faces: readonly Face[] = ["drawbridge", "drawbridge-ipam", "loopback"];
const executables = new Map<Face, string>();

describe("the executable and bad input", function () {
  this.timeout(10 * 60_000);
  let lab: Lab;
  let wired: WiredNode;
  let pod: LabPod;

  before(function () {
    requireKernel(this);
    lab = createLab("bad-input");
    wired = twoNodes(lab).node1;
    pod = lab.pod("victim");
    for (const face of faces) executables.set(face, pluginAs(face, lab.scratch));
  });

  after(() => lab?.destroy());

  it(`${CALLS} mutated calls each print one JSON object, end in time and leave nothing (P15; seed ${seed})`, () => {
    const untouched = stateOf(lab, wired, pod);
    attachOnce(wired, pod, untouched);
    const configured = networksOf(wired, pod);
    const machine = machineDirectories.flatMap(filesBelow);
    const seen = new Map<number | "ok", number>();
    const calls = fc.sample(callsAgainst(wired, pod), { seed, numRuns: CALLS });
    for (const [index, [face, call]] of calls.entries()) {
      const outcome = judge(wired, face, call);
      seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
      const context = `${outcome}: ${face} ${JSON.stringify(call).slice(0, 2000)}`;
      if (outcome === "ok" && call.verb === "ADD") {
        assert.equal(run(wired.node, face, { ...call, verb: "DEL" }).exitCode, 0, context);
      }
      if (outcome === "ok" || !gateCodes.includes(outcome)) forgetInfrastructure(wired, pod, untouched.links);
      assert.deepEqual(stateOf(lab, wired, pod), untouched, context);
      const isLooked = (index + 1) % CALLS_PER_LOOK === 0 || index + 1 === calls.length;
      if (isLooked) assert.deepEqual(networksOf(wired, pod), configured, `up to ${context}`);
    }
    assert.deepEqual(machineDirectories.flatMap(filesBelow), machine);
    // With a broken generator every call would fail at the same first gate.
    for (const outcome of ["ok", 4, 6, 7] as const) {
      assert.ok((seen.get(outcome) ?? 0) > 0, `no call ended with ${outcome}: ${JSON.stringify([...seen])}`);
    }
  });
});

function callsAgainst(wired: WiredNode, pod: LabPod): fc.Arbitrary<readonly [Face, MutatedCall]> {
  const plain = configurationOf(wired);
  const { ipam } = plain;
  assert.ok(typeof ipam === "object");
  const configurations = [
    plain,
    { ...plain, cniVersion: "0.2.0", mtu: 0, ipMasq: false, vlan: 0, dns: { nameservers: ["10.96.0.10"] } },
    {
      ...plain,
      ipam: { ...ipam, routes: [{ dst: "0.0.0.0/0", gw: "10.244.1.1" }, { dst: "fd00::/8" }] },
      args: { cni: { ips: ["10.244.1.8"], mac: "0a:58:0a:f4:01:08" } },
      runtimeConfig: { ips: ["fd00:244:1::8/64"], mac: "0a:58:0a:f4:01:09", portMappings: [] },
      prevResult: { cniVersion: "1.0.0", ips: [] },
    },
  ];
  const environment = {
    CNI_CONTAINERID: "victim",
    CNI_IFNAME: "eth0",
    CNI_NETNS: pod.path,
    CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=victim",
  };
  return fc.tuple(fc.constantFrom(...faces), mutatedCalls({ configurations, environment }));
}

function run(node: LabNamespace, face: Face, { verb, environment, stdin }: MutatedCall): RawOutcome {
  const call = { ...environment, CNI_COMMAND: verb, CNI_PATH: "/opt/cni/bin" };
  const executable = executables.get(face);
  assert.ok(executable !== undefined);
  return rawCall(node, call, stdin, executable);
}

/**
 * Attaches and detaches a pod once. That leaves what all pods share and no DEL takes back, such as settings of the
 * node, so the test does not attribute it to a later call.
 */
function attachOnce(wired: WiredNode, pod: LabPod, { links }: State): void {
  const environment = { CNI_CONTAINERID: "first", CNI_IFNAME: "eth0", CNI_NETNS: pod.path };
  const stdin = JSON.stringify(configurationOf(wired));
  for (const face of ["drawbridge", "loopback"] as const) {
    for (const verb of ["ADD", "DEL"] as const) {
      const { exitCode, stdout } = run(wired.node, face, { verb, environment, stdin });
      assert.equal(exitCode, 0, `${face} ${verb}: ${stdout}`);
    }
  }
  forgetInfrastructure(wired, pod, links);
}

/** Carries out one call, asserts the form of its outcome and returns its error's code. */
function judge(wired: WiredNode, face: Face, call: MutatedCall): number | "ok" {
  const started = performance.now();
  const { exitCode, stdout, stderr } = run(wired.node, face, call);
  const milliseconds = performance.now() - started;
  const context = `${face} ${JSON.stringify(call).slice(0, 2000)} printed ${stdout.slice(0, 2000)}`;
  assert.ok(milliseconds < SLOWEST_MILLISECONDS, `${milliseconds} ms: ${context}`);
  assert.equal(stderr, "", context);
  if (exitCode === 0 && call.verb === "DEL") {
    assert.equal(stdout, "", context);
    return "ok";
  }
  const printed: unknown = JSON.parse(stdout);
  assert.ok(typeof printed === "object" && printed !== null && !Array.isArray(printed), context);
  assert.ok("cniVersion" in printed, context);
  if (exitCode === 0) {
    assert.equal("code" in printed, false, context);
    return "ok";
  }
  assert.equal(exitCode, 1, context);
  assert.ok(
    "code" in printed && typeof printed.code === "number" && "msg" in printed && typeof printed.msg === "string",
    context,
  );
  assert.notEqual(printed.code, 999, context);
  assert.doesNotMatch(stdout, /\\n\s+at .*:\d+/, context);
  return printed.code;
}

interface State {
  readonly links: readonly string[];
  readonly podLinks: readonly string[];
  readonly files: readonly string[];
}

/**
 * Returns the links of the node and the pod, and the files of the lab. It omits the bookkeeping of the address
 * store and the values that settings of the node had before the first ADD, which an uninstall gives back.
 */
function stateOf(lab: Lab, wired: WiredNode, pod: LabPod): State {
  const bookkeeping = /^(lock|last_reserved_ip\.\d+|net%2Fipv[46]%2Fconf%2F[^/]+\.json)$/;
  return {
    links: wired.node.links().map(({ name }) => name),
    podLinks: pod.links().map(({ name }) => name),
    files: filesBelow(lab.scratch).filter((file) => !bookkeeping.test(path.basename(file))),
  };
}

function networksOf(wired: WiredNode, pod: LabPod): readonly NetworkState[] {
  return [wired.node, pod].map((namespace) => namespace.inside(networkState));
}

function filesBelow(directory: string): readonly string[] {
  try {
    return readdirSync(directory, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => path.join(entry.parentPath, entry.name))
      .sort();
  } catch {
    return [];
  }
}

/**
 * Removes the bridge that an accepted call made, and sets `lo` up as before the call. It does not remove a pod's link:
 * the call itself or its DEL must do so.
 */
function forgetInfrastructure(wired: WiredNode, pod: LabPod, expected: readonly string[]): void {
  const bridges = wired.node.links().filter(({ name, kind }) => kind === "bridge" && !expected.includes(name));
  wired.node.route.requestAll(bridges.map(({ index }) => deleteLink({ index })));
  pod.route.requestAll([changeLink({ name: "lo" }, { up: true })]);
}

import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { toCniError } from "../../../../cni/error.ts";
import { type Face, runVerb } from "../../../../cni/plugin.ts";
import { ipamInput, networkInput } from "../../../support/cni/cni.ts";
import { type MutatedCall, mutatedCalls } from "../../../support/cni/mutation.ts";
import { fakeNode } from "../../../support/cni/fake_node.ts";
import { countedSeed, roundsFor } from "../../../support/long_form.ts";

const RUNS = roundsFor("random cases", 2000, 100_000);
const seed = countedSeed();

const faces: readonly Face[] = ["drawbridge", "drawbridge-ipam", "loopback"];

describe("cni fuzz", function () {
  this.timeout(10 * 60_000);
  const root = mkdtempSync(path.join(os.tmpdir(), "drawbridge-fuzz-"));
  after(() => rmSync(root, { recursive: true, force: true }));

  const directories = {
    dataDir: `${root}/networks`,
    ranges: [[{ subnet: "10.244.1.0/24" }], [{ subnet: "fd00:244:1::/64" }]],
  };
  const configurations = [
    { ...ipamInput(directories), runDir: `${root}/run` },
    {
      ...ipamInput({
        ...directories,
        ranges: undefined,
        subnet: "10.244.1.0/24",
        gateway: "10.244.1.1",
        rangeEnd: "10.244.1.9",
      }),
      runDir: `${root}/run`,
    },
    {
      ...ipamInput({ ...directories, routes: [{ dst: "0.0.0.0/0", gw: "10.244.1.1" }, { dst: "fd00::/8" }] }),
      runDir: `${root}/run`,
      bridge: "drawbridge0",
      isGateway: true,
      hairpinMode: true,
      mtu: 1400,
      ipMasq: false,
      vlan: 0,
      dns: { nameservers: ["10.96.0.10"], search: ["svc"] },
      args: { cni: { ips: ["10.244.1.8"], mac: "0a:58:0a:f4:01:08" } },
      runtimeConfig: {
        ips: ["fd00:244:1::8/64"],
        mac: "0a:58:0a:f4:01:09",
        ipRanges: [[{ subnet: "10.245.0.0/24" }]],
        portMappings: [],
      },
      prevResult: { cniVersion: "1.0.0", ips: [] },
    },
    {
      ...networkInput({ cniVersion: "0.2.0", runDir: `${root}/run` }),
      ipam: { type: "drawbridge-ipam", ...directories },
    },
  ];
  const environment = {
    CNI_CONTAINERID: "c1",
    CNI_IFNAME: "eth0",
    // This namespace is not the node's network namespace. Its kind does not matter, since the fake kernel refuses to
    // enter any.
    CNI_NETNS: "/proc/self/ns/mnt",
    CNI_ARGS: "IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=pod",
  };
  const calls = fc.tuple(fc.constantFrom(...faces), mutatedCalls({ configurations, environment }));

  it(`${RUNS} mutated calls end in a result or one of our errors, and write no other file (P15; seed ${seed})`, () => {
    const before = openDescriptors();
    const seen = new Map<number | "ok", number>();
    fc.assert(
      fc
        .property(calls, ([face, call]) => {
          const outcome = check(root, face, call);
          seen.set(outcome, (seen.get(outcome) ?? 0) + 1);
        })
        .beforeEach(() => rmSync(`${root}/networks`, { recursive: true, force: true })),
      { seed, numRuns: RUNS },
    );
    assert.equal(openDescriptors(), before);
    // With a faulty generator everything could fail at the same first gate.
    for (const outcome of ["ok", 1, 4, 6, 7, 8, 105] as const) {
      assert.ok((seen.get(outcome) ?? 0) > 0, `no call ended with ${outcome}: ${JSON.stringify([...seen])}`);
    }
  });
});

/** Carries out one call. @returns the code of its error */
function check(root: string, face: Face, call: MutatedCall): number | "ok" {
  const node = fakeNode(root);
  try {
    const output = runVerb(node, face, call.verb, { self: face, environment: call.environment, stdin: call.stdin });
    if (call.verb === "ADD") assertResult(output);
    else assert.equal(output, "");
    return "ok";
  } catch (error) {
    if (error instanceof assert.AssertionError) throw error;
    const { code, message, details = "" } = toCniError(error);
    assert.notEqual(code, 999, error instanceof Error ? error.stack : String(error));
    assert.ok(message.length > 0);
    assert.doesNotMatch(`${message}\n${details}`, /^\s+at .*:\d+:\d+/m);
    return code;
  } finally {
    assert.deepEqual(node.escapes, []);
    const elsewhere = readdirSync(root).filter((name) => name !== "networks" && name !== "run");
    assert.deepEqual(elsewhere, []);
  }
}

function assertResult(output: string): void {
  const value: unknown = JSON.parse(output);
  assert.ok(typeof value === "object" && value !== null && !Array.isArray(value));
}

function openDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

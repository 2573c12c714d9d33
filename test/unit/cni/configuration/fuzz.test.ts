import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import os from "node:os";
import path from "node:path";
import fc from "fast-check";
import { toCniError } from "../../../../cni/error.ts";
import { type Face, runVerb } from "../../../../cni/plugin.ts";
import { ipamInput, networkInput } from "../../../support/cni/cni.ts";
import { fakeNode } from "../../../support/cni/fake_node.ts";
import { countedSeed, roundsFor } from "../../../support/long_form.ts";
import { anyChange, type Change, changedAt, HOSTILE_TEXTS, pathsOf } from "../../../support/mutation.ts";

const RUNS = roundsFor("random cases", 2000, 100_000);
const seed = countedSeed();

const faces: readonly Face[] = ["drawbridge", "drawbridge-ipam", "loopback"];

/** One call of the plugin that is damaged or, by chance, correct. */
interface MutatedCall {
  readonly verb: "ADD" | "DEL";
  readonly environment: Readonly<Record<string, string>>;
  readonly stdin: string;
}

/** The places that hold directories. Without them the plugin would use its default ones, which are the machine's. */
const HOLDERS: readonly string[] = ["", "ipam"];

/** Replacements for a directory, none of which is accepted. */
const HOSTILE_DIRECTORIES: readonly unknown[] = [
  ..."x ../x /.. /tmp/../../etc /tmp/\0 ~ .".split(" "),
  7,
  true,
  {},
  ["/tmp/x"],
];

const HOSTILE_VARIABLES: readonly string[] = [
  ...HOSTILE_TEXTS,
  ..."/proc/self/ns/net /dev/null /proc/self/status /nonexistent/x A=1 A=1=2 ;; = IP=x MAC=x IP=10.244.1.7".split(" "),
  ..."IP=10.244.1.1 IP=192.0.2.1 MAC=0a:58:0a:f4:01:07 IgnoreUnknown=1;A=1 K8S_POD_NAMESPACE=../x;K8S_POD_NAME=..".split(
    " ",
  ),
];

/**
 * Generates calls with up to three mutations of an accepted configuration, and of its environment. Texts that are not
 * JSON are left to the test of the executable.
 *
 * @param configurations their `dataDir` and `runDir` are only ever replaced by texts that the plugin refuses
 */
function mutatedCalls(
  configurations: readonly object[],
  environment: Readonly<Record<string, string>>,
): fc.Arbitrary<MutatedCall> {
  const stdin = fc
    .tuple(
      fc.constantFrom(...configurations),
      fc.array(fc.record({ where: fc.nat(), change: anyChange }), { maxLength: 3 }),
    )
    .map(([configuration, mutations]) =>
      JSON.stringify(
        mutations.reduce<unknown>((value, { where, change }) => mutatedAt(value, where, change), configuration),
      ),
    );
  const variable = fc.tuple(
    fc.constantFrom("CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_ARGS"),
    fc.constantFrom(...HOSTILE_VARIABLES),
  );
  return fc.record({
    verb: fc.constantFrom("ADD", "DEL"),
    environment: fc
      .option(variable, { freq: 2, nil: undefined })
      .map((changed) => ({ ...environment, ...(changed && Object.fromEntries([changed])) })),
    stdin,
  });
}

/** Changes the value at one of the places of a configuration; a directory is only replaced, never changed. */
function mutatedAt(value: unknown, where: number, change: Change): unknown {
  const places = pathsOf(value).filter((one) => !HOLDERS.includes(one.join(".")));
  const place = places[where % places.length] ?? [];
  const isDirectory = place.includes("dataDir") || place.includes("runDir");
  return changedAt(value, place, isDirectory ? () => HOSTILE_DIRECTORIES[where % HOSTILE_DIRECTORIES.length] : change);
}

describe("cni fuzz", function () {
  this.timeout(10 * 60_000);
  const root = mkdtempSync(path.join(os.tmpdir(), "drawbridge-fuzz-"));
  after(() => rmSync(root, { recursive: true, force: true }));

  const directories = {
    dataDir: `${root}/networks`,
    ranges: [[{ subnet: "10.244.1.0/24" }], [{ subnet: "fd00:244:1::/64" }]],
  };
  const configurations = [
    {
      ...ipamInput({
        ...directories,
        subnet: "10.244.2.0/24",
        gateway: "10.244.2.1",
        rangeEnd: "10.244.2.9",
        routes: [{ dst: "0.0.0.0/0", gw: "10.244.1.1" }, { dst: "fd00::/8" }],
      }),
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
  const calls = fc.tuple(fc.constantFrom(...faces), mutatedCalls(configurations, environment));

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
    for (const outcome of ["ok", 1, 4, 7, 8, 105] as const) {
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

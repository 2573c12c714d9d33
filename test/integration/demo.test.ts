import assert from "node:assert/strict";
import type { ChildProcess } from "node:child_process";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import process from "node:process";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import { VERSION } from "../../policyd/version.ts";
import { findLabFiles } from "../lab/sweep.ts";
import { eventually } from "../support/guard/guarded_node.ts";
import { requireKernel } from "../support/privilege.ts";

const DEMO = fileURLToPath(new URL("../demo/demo.ts", import.meta.url));

const cellSchema = v.object({ source: v.string(), target: v.string(), family: v.number(), protocol: v.string() });

const spoofSchema = v.object({
  sent: v.number(),
  arrived: v.number(),
  counted: v.array(v.optional(v.nullable(v.number()))),
});

const serviceCellSchema = v.object({ frontend: v.string(), client: v.string(), family: v.number() });

const servicesSchema = v.object({
  expected: v.array(serviceCellSchema),
  seen: v.array(
    v.object({
      ...serviceCellSchema.entries,
      connections: v.number(),
      answers: v.array(v.object({ by: v.string(), source: v.string(), as: v.string() })),
      failures: v.array(v.string()),
    }),
  ),
  differences: v.array(v.object({ ...serviceCellSchema.entries, expected: v.string(), saw: v.string() })),
});

const resultSchema = v.object({
  isAsExpected: v.boolean(),
  broken: v.optional(v.string()),
  daemons: v.array(
    v.object({
      node: v.string(),
      version: v.string(),
      isSynced: v.boolean(),
      attachments: v.number(),
      objects: v.record(v.string(), v.number()),
      problems: v.array(v.string()),
    }),
  ),
  pods: v.array(v.object({ name: v.string(), node: v.string(), addresses: v.tuple([v.string(), v.string()]) })),
  expected: v.array(cellSchema),
  seen: v.array(v.object({ ...cellSchema.entries, reached: v.boolean(), seenSource: v.optional(v.string()) })),
  differences: v.array(cellSchema),
  services: servicesSchema,
  sameNode: v.array(
    v.object({
      bridgeNetfilter: v.boolean(),
      flows: v.number(),
      differences: v.array(cellSchema),
      receivedByPods: v.number(),
      followed: v.array(v.string()),
    }),
  ),
  spoof: spoofSchema,
  harm: v.object({
    node: v.string(),
    milliseconds: v.optional(v.number()),
    tables: v.number(),
    flows: v.number(),
    differences: v.array(cellSchema),
    services: servicesSchema,
    spoof: spoofSchema,
  }),
  leftovers: v.record(v.string(), v.array(v.string())),
});

type Result = v.InferOutput<typeof resultSchema>;

type Cell = v.InferOutput<typeof cellSchema>;

const keyOf = ({ source, target, family, protocol }: Cell): string => `${source} ${target} ${family} ${protocol}`;

function runDemo(...args: readonly string[]): {
  readonly exitCode: number | null;
  readonly result: Result;
} {
  const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO, "-o", "json", ...args], {
    encoding: "utf8",
    maxBuffer: 1 << 24,
  });
  assert.notEqual(stdout, "", stderr);
  return { exitCode: status, result: v.parse(resultSchema, JSON.parse(stdout)) };
}

/** How many drops the kernel counted of the spoofed packets; undefined when a counter was not there. */
function countedOf({ counted: [before, after] }: Result["spoof"]): number | undefined {
  return typeof before === "number" && typeof after === "number" ? after - before : undefined;
}

/** What holds of the daemons and of node1's flushed ruleset, whatever else is broken. */
function assertDaemons({ daemons, harm }: Result): void {
  assert.deepEqual(
    daemons.map(({ node, version, isSynced, attachments, objects, problems }) => [
      node,
      version,
      isSynced,
      attachments,
      ["Namespace", "Node", "Pod", "Service", "EndpointSlice"].map((kind) => objects[kind]),
      problems,
    ]),
    ["node1", "node2"].map((node) => [node, VERSION, true, 3, [1, 2, 6, 11, 22], []]),
  );
  assert.ok(harm.milliseconds !== undefined && harm.milliseconds > 0);
  assert.deepEqual([harm.node, harm.tables, harm.flows], ["node1", 2, FLOWS]);
  assert.deepEqual([harm.spoof.sent, harm.spoof.arrived, countedOf(harm.spoof)], [2, 0, 2]);
}

// 8 sources × 6 pods − 6 pods to themselves, × 2 families × 4 protocols
const FLOWS = (8 * 6 - 6) * 2 * 4;
const NODE1_PODS = ["pod-a", "pod-b", "pod-c"];
const NODE2_PODS = ["pod-d", "pod-e", "pod-f"];

const CLIENTS = ["pod-a", "pod-d", "node1", "router"];

/** Who answers each client over either family, and whom it sees; one of several with affinity. */
const SERVICES: Readonly<Record<string, readonly [string, string, string, string]>> = {
  ClusterIP: ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as node1"],
  "ClusterIP, UDP": ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as node1"],
  "ClusterIP, SCTP": ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as node1"],
  "ClusterIP of pod-a": ["a as node1", "a as itself", "a as node1", "a as node1"],
  "ClusterIP, affinity": ["one as itself", "one as itself", "one as node1", "one as node1"],
  "ClusterIP, Local": ["b as itself", "no answer", "b as node1", "b as node1"],
  "ClusterIP, no pods": ["refused", "refused", "refused", "refused"],
  NodePort: ["b c e as node1", "b c e as node1", "b c e as node1", "b c e as node1"],
  "NodePort, Local": ["b e as itself", "b as itself", "b e as node1", "b as itself"],
  "LoadBalancer, ranges": ["no answer", "no answer", "no answer", "b c e as node1"],
  externalIPs: ["b c e as node1", "b c e as node2", "b c e as node1", "b c e as node1"],
  headless: ["b c e as itself", "b c e as itself", "b c e as node1", "b c e as itself"],
  ExternalName: ["router as itself", "router as itself", "router as node1", "router as itself"],
};

type ServiceCell = v.InferOutput<typeof serviceCellSchema>;

const serviceKey = ({ frontend, client, family }: ServiceCell): string => `${frontend}: ${client} ${family}`;

/** What was seen in a cell, in the words of {@link SERVICES}. */
function seenText({ frontend, answers, failures }: Result["services"]["seen"][number]): string {
  const names = answers.map(({ by }) => by.replace("pod-", ""));
  const chosen = frontend === "ClusterIP, affinity" ? names.map(() => "one") : [...new Set(names)].sort();
  const sources = new Set(answers.map(({ as }) => as.replace(/'s .*/, "")));
  return [...(names.length === 0 ? [] : [`${chosen.join(" ")} as ${[...sources].join(", ")}`]), ...failures].join(", ");
}

function assertServicesAsExpected({ expected, seen, differences }: Result["services"]): void {
  assert.equal(expected.length, Object.keys(SERVICES).length * CLIENTS.length * 2);
  const owed = Object.entries(SERVICES).flatMap(([frontend, texts]) =>
    CLIENTS.flatMap((client, i) =>
      [4, 6].map((family) => `${serviceKey({ frontend, client, family })}: ${texts[i] ?? ""}`),
    ),
  );
  assert.deepEqual(
    seen.map((cell) => `${serviceKey(cell)}: ${seenText(cell)}`),
    owed,
  );
  assert.deepEqual(differences, []);
}

/** Demands that these cells differ, by frontend and client, and no others. */
function assertRedServices(
  { differences }: Result["services"],
  red: Readonly<Record<string, readonly string[]>>,
  families: readonly number[] = [4, 6],
): void {
  const keys = Object.entries(red).flatMap(([frontend, clients]) =>
    clients.flatMap((client) => families.map((family) => serviceKey({ frontend, client, family }))),
  );
  assert.deepEqual(differences.map(serviceKey).toSorted(), keys.toSorted());
}

/** The process ids of a demo's daemons, by the directory of its lab in their command lines. */
function daemonsOf({ pid }: ChildProcess): readonly number[] {
  const isDaemonOfIt = (id: string): boolean => commandLine(id).includes(`/dbl-${pid}-`);
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && isDaemonOfIt(name))
    .map(Number);
}

/** Empty for a process that has ended. */
function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return "";
  }
}

describe("the demo", function () {
  // Ten seconds as a rule; the kernel's rcu_barrier under every link removal can take eight more.
  this.timeout(120_000);

  before(function () {
    requireKernel(this);
  });

  it("POD-01 POD-03 POD-04 POD-05 POD-06 POD-22 DP-09 GUARD-01 GUARD-06: all pods reach all others, Services their pods, unchanged, and nothing is left", () => {
    const { exitCode, result } = runDemo();
    assertServicesAsExpected(result.services);
    assertServicesAsExpected(result.harm.services);
    assert.equal(result.seen.length, FLOWS);
    assert.ok(result.seen.every((cell) => cell.reached));
    const addresses = new Map(result.pods.map((pod) => [pod.name, pod.addresses]));
    assert.equal(new Set([...addresses.values()].flat()).size, 12);
    for (const cell of result.seen) {
      const own = addresses.get(cell.source);
      if (own !== undefined) assert.equal(cell.seenSource, own[cell.family === 4 ? 0 : 1], keyOf(cell));
    }
    assert.ok(result.sameNode.length > 0);
    for (const { flows, differences, receivedByPods, followed } of result.sameNode) {
      assert.equal(flows, 2 * 6 * 2 * 4);
      assert.deepEqual([...differences, ...followed], []);
      assert.equal(receivedByPods, 0);
    }
    assertDaemons(result);
    assert.deepEqual(result.harm.differences, []);
    assert.deepEqual([result.spoof.sent, result.spoof.arrived, countedOf(result.spoof)], [2, 0, 2]);
    assert.deepEqual(Object.values(result.leftovers).flat(), []);
    assert.deepEqual([exitCode, result.isAsExpected], [0, true]);
  });

  it("shows exactly the IPv4 cells between node1 and node2's pods red when that route is removed", () => {
    const { exitCode, result } = runDemo("--break", "route");
    assert.equal(exitCode, 1);
    assert.equal(result.isAsExpected, false);
    assert.match(result.broken ?? "", /10\.244\.2\.0\/24/);
    // node2 itself answers from its uplink's address, whose route is still there.
    const pairs = [
      ...[...NODE1_PODS, "node1"].flatMap((source) => NODE2_PODS.map((target) => ({ source, target }))),
      ...NODE2_PODS.flatMap((source) => NODE1_PODS.map((target) => ({ source, target }))),
    ];
    const red = pairs.flatMap((pair) =>
      ["tcp", "udp", "icmp", "sctp"].map((protocol) => keyOf({ ...pair, family: 4, protocol })),
    );
    assert.deepEqual(result.differences.map(keyOf).toSorted(), red.toSorted());
    assert.deepEqual(result.harm.differences.map(keyOf).toSorted(), red.toSorted());
    for (const services of [result.services, result.harm.services]) {
      // pod-d's external traffic leaves with node2's own address, whose route is still there.
      assertRedServices(
        services,
        {
          ClusterIP: CLIENTS,
          "ClusterIP, UDP": CLIENTS,
          "ClusterIP, SCTP": CLIENTS,
          "ClusterIP of pod-a": ["pod-d"],
          "ClusterIP, affinity": ["pod-d"],
          NodePort: CLIENTS,
          "NodePort, Local": ["pod-a", "pod-d", "node1"],
          "LoadBalancer, ranges": ["router"],
          externalIPs: ["pod-a", "node1", "router"],
          headless: CLIENTS,
          ExternalName: ["pod-d"],
        },
        [4],
      );
    }
    assertDaemons(result);
    assert.deepEqual(Object.values(result.leftovers).flat(), []);
  });

  it("shows exactly the spoofed packets red while the guard is removed, and the daemon puts it back", () => {
    const { exitCode, result } = runDemo("--break", "guard");
    assert.equal(exitCode, 1);
    assert.equal(result.isAsExpected, false);
    assert.match(result.broken ?? "", /table bridge drawbridge/);
    assert.deepEqual([result.spoof.sent, result.spoof.arrived], [2, 2]);
    assert.equal(countedOf(result.spoof), undefined);
    assertDaemons(result);
    assert.deepEqual([...result.differences, ...result.harm.differences], []);
    assertServicesAsExpected(result.services);
    assert.ok(result.sameNode.every(({ differences }) => differences.length === 0));
    assert.deepEqual(Object.values(result.leftovers).flat(), []);
  });

  for (const { name, what, removed, red } of [
    {
      name: "hairpin",
      what: "a pod that a Service sends to itself",
      removed: /set inet drawbridge selfpairs4, inet drawbridge selfpairs6/,
      red: { "ClusterIP of pod-a": ["pod-a"] },
    },
    {
      name: "masquerade",
      what: "the clients that endpoints see as their node",
      removed: /chain inet drawbridge services_postrouting/,
      red: {
        ClusterIP: ["node1", "router"],
        "ClusterIP, UDP": ["node1", "router"],
        "ClusterIP, SCTP": ["node1", "router"],
        "ClusterIP of pod-a": ["pod-a", "node1", "router"],
        "ClusterIP, affinity": ["node1", "router"],
        "ClusterIP, Local": ["node1", "router"],
        NodePort: CLIENTS,
        "NodePort, Local": ["node1"],
        "LoadBalancer, ranges": ["router"],
        externalIPs: CLIENTS,
      },
    },
    {
      name: "affinity",
      what: "the clients that stay with an endpoint",
      removed: /map inet drawbridge affinity_service4/,
      red: { "ClusterIP, affinity": CLIENTS },
    },
  ] as const) {
    it(`shows exactly ${what} red while ${name} is removed, and the daemons put it back`, () => {
      const { exitCode, result } = runDemo("--break", name);
      assert.equal(exitCode, 1);
      assert.equal(result.isAsExpected, false);
      assert.match(result.broken ?? "", removed);
      assertRedServices(result.services, red);
      assert.deepEqual([...result.differences, ...result.harm.differences], []);
      assertServicesAsExpected(result.harm.services);
      assertDaemons(result);
      assert.deepEqual(Object.values(result.leftovers).flat(), []);
    });
  }

  /** A demo in a process of its own, once both its daemons run. */
  async function startedDemo(): Promise<{ readonly demo: ChildProcess; readonly daemons: readonly number[] }> {
    const demo = spawn(process.execPath, [DEMO], { stdio: ["ignore", "ignore", "pipe"] });
    const isUp = (): boolean => demo.exitCode !== null || daemonsOf(demo).length === 2;
    assert.ok((await eventually(isUp)) && demo.exitCode === null, "the demo starts two daemons");
    return { demo, daemons: daemonsOf(demo) };
  }

  async function assertNothingLeft(demo: ChildProcess): Promise<void> {
    assert.ok(await eventually(() => daemonsOf(demo).length === 0), "no daemon is left");
    const left = findLabFiles(({ pid }) => pid === demo.pid);
    assert.deepEqual([...left.namespaces, ...left.directories], []);
  }

  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    it(`${signal} takes daemons and namespaces away, too`, async () => {
      const { demo } = await startedDemo();
      demo.kill(signal);
      const ended: unknown[] = await once(demo, "exit");
      assert.deepEqual(ended, [null, signal]);
      await assertNothingLeft(demo);
    });
  }

  it("a daemon that dies fails the demo in one sentence, and nothing is left", async () => {
    const { demo, daemons } = await startedDemo();
    let words = "";
    demo.stderr?.setEncoding("utf8").on("data", (text: string) => (words += text));
    for (const pid of daemons) process.kill(pid, "SIGKILL");
    const ended: unknown[] = await once(demo, "close");
    assert.deepEqual(ended, [1, null]);
    assert.match(words, /^demo: .*policyd/m);
    await assertNothingLeft(demo);
  });

  it("prints tables without colour codes into a pipe, and one red line for the removed guard", () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO, "--break", "guard"], { encoding: "utf8" });
    assert.equal(status, 1, stderr);
    assert.match(stdout, /pod-f/);
    assert.ok(!`${stdout}${stderr}`.includes("\u001b"));
    const red = stdout.split("\n").filter((line) => line.startsWith("✗"));
    assert.deepEqual(red, [
      "✗ 2 of 2 packets that pod-a sent as pod-b reached pod-c; node1's count of dropped ones: no such rule before, no such rule after",
    ]);
    const widest = Math.max(
      ...stdout
        .split("\n")
        .filter((line) => line.startsWith("│"))
        .map((line) => line.length),
    );
    assert.ok(widest <= 100, `${widest} columns`);
    assert.match(stdout, /Not as expected; took \d+\.\d s\./);
  });
});

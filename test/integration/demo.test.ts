import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import process from "node:process";
import { fileURLToPath } from "node:url";
import * as v from "valibot";
import { requireKernel } from "../support/privilege.ts";

const DEMO = fileURLToPath(new URL("../demo/demo.ts", import.meta.url));

const cellSchema = v.object({ source: v.string(), target: v.string(), family: v.number(), protocol: v.string() });

const resultSchema = v.object({
  isAsExpected: v.boolean(),
  broken: v.optional(v.string()),
  pods: v.array(v.object({ name: v.string(), node: v.string(), addresses: v.tuple([v.string(), v.string()]) })),
  expected: v.array(cellSchema),
  seen: v.array(v.object({ ...cellSchema.entries, reached: v.boolean(), seenSource: v.optional(v.string()) })),
  differences: v.array(cellSchema),
  sameNode: v.array(
    v.object({
      bridgeNetfilter: v.boolean(),
      flows: v.number(),
      differences: v.array(cellSchema),
      followed: v.array(v.string()),
    }),
  ),
  leftovers: v.record(v.string(), v.array(v.string())),
});

type Cell = v.InferOutput<typeof cellSchema>;

const keyOf = ({ source, target, family, protocol }: Cell): string => `${source} ${target} ${family} ${protocol}`;

function runDemo(...args: readonly string[]): {
  readonly exitCode: number | null;
  readonly result: v.InferOutput<typeof resultSchema>;
} {
  const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO, "-o", "json", ...args], {
    encoding: "utf8",
    maxBuffer: 1 << 24,
  });
  assert.notEqual(stdout, "", stderr);
  return { exitCode: status, result: v.parse(resultSchema, JSON.parse(stdout)) };
}

const NODE1_PODS = ["pod-a", "pod-b", "pod-c"];
const NODE2_PODS = ["pod-d", "pod-e", "pod-f"];

describe("the demo", function () {
  // Three seconds as a rule; the kernel's rcu_barrier under every link removal can take eight more.
  this.timeout(60_000);

  before(function () {
    requireKernel(this);
  });

  it("POD-01 POD-03 POD-04 POD-05 POD-06 POD-22: all pods reach all others, unchanged, and nothing is left", () => {
    const { exitCode, result } = runDemo();
    assert.equal(exitCode, 0);
    assert.equal(result.isAsExpected, true);
    // 8 sources × 6 pods − 6 pods to themselves, × 2 families × 4 protocols
    assert.equal(result.seen.length, (8 * 6 - 6) * 2 * 4);
    assert.ok(result.seen.every((cell) => cell.reached));
    const addresses = new Map(result.pods.map((pod) => [pod.name, pod.addresses]));
    assert.equal(new Set([...addresses.values()].flat()).size, 12);
    for (const cell of result.seen) {
      const own = addresses.get(cell.source);
      if (own !== undefined) assert.equal(cell.seenSource, own[cell.family === 4 ? 0 : 1], keyOf(cell));
    }
    assert.ok(result.sameNode.length > 0);
    for (const { flows, differences, followed } of result.sameNode) {
      assert.equal(flows, 2 * 6 * 2 * 4);
      assert.deepEqual([...differences, ...followed], []);
    }
    assert.deepEqual(Object.values(result.leftovers).flat(), []);
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
    assert.deepEqual(Object.values(result.leftovers).flat(), []);
  });

  it("prints tables without colour codes into a pipe", () => {
    const { status, stdout, stderr } = spawnSync(process.execPath, [DEMO], { encoding: "utf8" });
    assert.equal(status, 0, stderr);
    assert.match(stdout, /pod-f/);
    assert.ok(!`${stdout}${stderr}`.includes("\u001b"));
    assert.match(stdout, /Everything as expected, in \d+\.\d s\./);
  });
});

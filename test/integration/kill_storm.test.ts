import assert from "node:assert/strict";
import { readdirSync } from "node:fs";
import { add, configurationOf, del, podCall, startPlugin } from "../lab/cni.ts";
import type { Configuration } from "../lab/cni.ts";
import type { Lab, LabPod } from "../lab/lab.ts";
import { createLab } from "../lab/lab.ts";
import type { WiredNode } from "../lab/topology.ts";
import { twoNodes } from "../lab/topology.ts";
import { requireKernel } from "../support/privilege.ts";
import { nodeState, nothingHeld } from "./kernel_state.ts";
import { randomFrom } from "../support/random.ts";

const PAIRS = process.env["DRAWBRIDGE_FULL"] === "1" ? 3000 : 300;
const PARALLEL = 16;
const KILL_SHARE = 0.2;
const KILLS_REQUIRED = 40;

/**
 * ADD and DEL in parallel while calls are killed at random: uniform over 0 to 1.2 times the median duration, so the
 * kills fall before, inside and after the work. Whatever state a kill leaves, one DEL must clear it.
 */
describe("calls killed at any moment", function () {
  this.timeout(300_000);
  let lab: Lab;
  let wired: WiredNode;

  before(function () {
    requireKernel(this);
    lab = createLab("kill-storm");
    wired = twoNodes(lab).node1;
  });

  after(() => lab?.destroy());

  it(`${PAIRS} ADD/DEL pairs, ${PARALLEL} in parallel, one call in five killed: nothing leaks, no address is held twice`, async function () {
    const seed = Number(process.env["DRAWBRIDGE_SEED"] ?? Date.now() % 2 ** 31);
    const random = randomFrom(seed);
    const medians = { ADD: medianOf(lab, wired, "ADD"), DEL: medianOf(lab, wired, "DEL") };
    const holders = new Map<string, string>();
    const duplicates: string[] = [];
    let killedInside = 0;
    let next = 0;

    const call = async (command: "ADD" | "DEL", pod: LabPod): Promise<Configuration | undefined> => {
      const running = startPlugin(wired.node, podCall(command, wired, pod));
      const dies = random() < KILL_SHARE;
      const timer = dies ? setTimeout(() => running.kill("SIGKILL"), random() * 1.2 * medians[command]) : undefined;
      const { signal, exitCode, stdout, result } = await running.outcome;
      clearTimeout(timer);
      if (signal === "SIGKILL") killedInside++;
      else assert.equal(exitCode, 0, `${command} ${pod.name}: ${stdout}`);
      return result;
    };

    const worker = async (pod: LabPod): Promise<void> => {
      while (next < PAIRS) {
        next++;
        const result = await call("ADD", pod);
        const addresses = addressesOf(result);
        for (const address of addresses) {
          const holder = holders.get(address);
          if (holder !== undefined) duplicates.push(`${address}: ${holder} and ${pod.name}`);
          holders.set(address, pod.name);
        }
        for (const address of addresses) holders.delete(address);
        await call("DEL", pod);
        // As a runtime does after a call that was killed: DEL until one succeeds.
        assert.equal(del(wired, pod).exitCode, 0);
        assertUnique(wired, duplicates);
      }
    };
    await Promise.all(Array.from({ length: PARALLEL }, (_, i) => worker(lab.pod(`w${i}`))));

    console.log(
      `      seed ${seed}, ${killedInside} calls killed inside, median ADD ${medians.ADD.toFixed(1)} ms, DEL ${medians.DEL.toFixed(1)} ms`,
    );
    assert.deepEqual(duplicates, []);
    assert.ok(
      killedInside >= KILLS_REQUIRED,
      `${killedInside} calls were killed inside; expected at least ${KILLS_REQUIRED}`,
    );
    assert.deepEqual(nodeState(wired.node), nothingHeld);
    for (const namespace of lab.namespaces.filter(({ name }) => name.startsWith("w"))) {
      assert.deepEqual(
        namespace.links().map(({ name }) => name),
        ["lo"],
      );
    }
    const left = readdirSync(`${wired.node.dataDir}/.drawbridge`);
    assert.ok(left.length <= 1, `a killed claim leaves at most one scratch file, not ${left.join(", ")}`);
  });
});

function addressesOf(result: Configuration | undefined): readonly string[] {
  const ips = result?.["ips"];
  return Array.isArray(ips) ? ips.map((ip: Configuration) => String(ip["address"])) : [];
}

/** The live invariant by the kernel's own eyes: no address is a neighbour behind two MACs, no two pods hold one. */
function assertUnique(wired: WiredNode, duplicates: string[]): void {
  const held = wired.node.exec("ip", ["neigh", "show", "nud", "permanent"]).split("\n").filter(Boolean);
  const addresses = held.map((line) => line.split(" ")[0] ?? "");
  if (new Set(addresses).size !== addresses.length) duplicates.push(held.join("; "));
}

function medianOf(lab: Lab, wired: WiredNode, command: "ADD" | "DEL"): number {
  const pod = lab.pod(`median-${command.toLowerCase()}`);
  const times = Array.from({ length: 9 }, () => {
    const added = add(wired, pod);
    const deleted = del(wired, pod);
    assert.equal(added.exitCode, 0, JSON.stringify(configurationOf(wired)));
    return (command === "ADD" ? added : deleted).milliseconds;
  }).sort((a, b) => a - b);
  return times[4] ?? 0;
}

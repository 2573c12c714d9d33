import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { add, LAB_BRIDGE } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import type { LabNamespace } from "../../lab/namespace.ts";
import { twoNodes } from "../../lab/topology.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { nodeOf } from "../../support/routes/route_lab.ts";
import { found, measured, type Row } from "../row.ts";
import { imageStart } from "./image_start.ts";
import { nanoseconds } from "../process_usage.ts";

const IDLE_GOAL = 0.2;
/**
 * Milliseconds after a start, the last pod and each repair, in which the daemon comes to rest: V8 collects garbage when
 * there is time.
 */
const REST_MILLISECONDS = 5000;
/** Milliseconds of rest after the last pod: 15 s after its ADD the bridge notifies of a port once more. */
const BRIDGE_MILLISECONDS = 20_000;
const REPAIR_MILLISECONDS = 1500;
const REPAIRS = 3;

/** The number of pods on the node, and the number of seconds for which it is watched. */
export interface IdlePlan {
  readonly pods: number;
  readonly seconds: number;
}

/**
 * Measures the processor time of the daemon on a node with idle pods, all of its threads together, beside the same
 * daemon without pods, and the cost of one repair: of a port, of a neighbour, of an address of the bridge, and of the
 * bridge with all ports.
 */
export async function idleNode(
  lab: Lab,
  { pods, seconds }: IdlePlan,
  progress: (step: string) => void,
): Promise<readonly Row[]> {
  const { node1: wired } = twoNodes(lab);
  const policyd = new PolicydNode(lab, wired);
  const { node } = wired;
  policyd.put("node.json", JSON.stringify(nodeOf(wired)));
  const { nodeOptions, environment } = imageStart();
  Object.assign(process.env, environment);
  const daemon = await policyd.start(["--log-level=error"], nodeOptions);
  try {
    await wait(REST_MILLISECONDS);
    progress(`${seconds} s without pods`);
    const empty = await shareOf(daemon, seconds);
    progress(`${pods} pods`);
    for (let number = 0; number < pods; number++) {
      const { error } = add(wired, lab.pod(`idle${number}`), policyd.overrides);
      assert.equal(error, undefined, JSON.stringify(error));
    }
    await wait(BRIDGE_MILLISECONDS);
    progress(`${seconds} s with ${pods} idle pods`);
    const idle = await shareOf(daemon, seconds);
    const rows = [
      found(
        `${pods} idle pods, ${seconds} s: of one processor`,
        "%",
        idle,
        IDLE_GOAL,
        `${empty.toFixed(3)} % without pods`,
      ),
    ];
    const port = node.links().find(({ name }) => name.startsWith("dbv"))?.name ?? "";
    for (const [what, harm] of [
      ["a port that was set down", () => node.exec("ip", ["link", "set", port, "down"])],
      ["a neighbour that was removed", () => node.exec("ip", ["neighbour", "delete", "10.244.1.2", "dev", LAB_BRIDGE])],
      ["an address of the bridge", () => node.exec("ip", ["address", "delete", "10.244.1.1/24", "dev", LAB_BRIDGE])],
      ["the bridge, with all ports", () => node.exec("ip", ["link", "delete", LAB_BRIDGE])],
    ] as const) {
      progress(`repairs: ${what}`);
      rows.push(measured(`repair of ${what}: of the processor`, "ms", await costs(daemon, node, harm, idle)));
    }
    return rows;
  } finally {
    await policyd.kill();
  }
}

/** Returns the percentage of one processor that the daemon uses. */
async function shareOf(daemon: DaemonProcess, seconds: number): Promise<number> {
  const [start, before] = [performance.now(), nanoseconds(daemon.child.pid)];
  await wait(seconds * 1000);
  return (100 * (nanoseconds(daemon.child.pid) - before)) / 1e6 / (performance.now() - start);
}

/** Returns the milliseconds of the processor for each of some repairs, without the daemon's use at rest. */
async function costs(
  daemon: DaemonProcess,
  node: LabNamespace,
  harm: () => void,
  idlePercent: number,
): Promise<readonly number[]> {
  const values: number[] = [];
  for (let round = 0; round < REPAIRS; round++) {
    const before = nanoseconds(daemon.child.pid);
    harm();
    await wait(REPAIR_MILLISECONDS);
    values.push((nanoseconds(daemon.child.pid) - before) / 1e6 - (REPAIR_MILLISECONDS * idlePercent) / 100);
    assert.ok(node.links().some(({ name, up }) => name === LAB_BRIDGE && up));
    // The daemon repairs repeated changes of another program more slowly.
    await wait(REST_MILLISECONDS);
  }
  return values;
}

import assert from "node:assert/strict";
import { setTimeout as wait } from "node:timers/promises";
import { add } from "../../lab/cni.ts";
import type { Lab } from "../../lab/lab.ts";
import { twoNodes } from "../../lab/topology.ts";
import type { DaemonProcess } from "../../support/daemon/policyd.ts";
import { PolicydNode } from "../../support/daemon/policyd_node.ts";
import { nodeOf } from "../../support/routes/route_lab.ts";
import { found, type Row } from "../row.ts";
import { imageStart } from "./image_start.ts";
import { nanoseconds } from "../process_usage.ts";

const IDLE_GOAL = 0.2;
/** Milliseconds after a start in which the daemon comes to rest: V8 collects garbage when there is time. */
const REST_MILLISECONDS = 5000;
/** Milliseconds of rest after the last pod: 15 s after its ADD the bridge notifies of a port once more. */
const BRIDGE_MILLISECONDS = 20_000;

/** The number of pods on the node, and the number of seconds for which it is watched. */
export interface IdlePlan {
  readonly pods: number;
  readonly seconds: number;
}

/**
 * Measures the processor time of the daemon on a node with idle pods, all of its threads together, beside the same
 * daemon without pods.
 */
export async function idleNode(
  lab: Lab,
  { pods, seconds }: IdlePlan,
  progress: (step: string) => void,
): Promise<readonly Row[]> {
  const { node1: wired } = twoNodes(lab);
  const policyd = new PolicydNode(lab, wired);
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
    const remark = `${empty.toFixed(3)} % without pods`;
    return [found(`${pods} idle pods, ${seconds} s: of one processor`, "%", idle, IDLE_GOAL, remark)];
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

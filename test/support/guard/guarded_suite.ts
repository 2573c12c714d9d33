import type { Lab } from "../../lab/lab.ts";
import { requireBridgeNetfilter } from "../privilege.ts";
import { suiteLab } from "../suite_lab.ts";
import { type GuardedNode, guardedNode } from "./guarded_node.ts";
import type { Way } from "./ways.ts";

/**
 * Provides the suite in which it is called with a guarded node: `made` gets it, with its lab, before the first test,
 * and both are removed after the last one. The suite is skipped where the kernel or br_netfilter is missing.
 *
 * @param name of the lab, unique among the suites
 */
export function useGuardedNode(name: string, way: Way, made: (on: GuardedNode, lab: Lab) => void): void {
  let on: GuardedNode | undefined;

  before(function () {
    this.timeout(300_000);
    if (way.bridgeNetfilter) requireBridgeNetfilter(this);
    const lab = suiteLab(this, `${name}-${way.short}`);
    on = guardedNode(lab, way.bridgeNetfilter, way.bypassBridge);
    made(on, lab);
  });

  after(() => on?.[Symbol.dispose]());
}

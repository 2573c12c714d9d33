import type { DrawbridgeError } from "../../kernel/error.ts";
import type { DesiredBridge } from "./desired.ts";
import { repairSteps, stepText } from "./difference.ts";
import type { NodeStateKernel, ObservedBridge, Scope, Step } from "./observed.ts";
import { EVERYTHING } from "./observed.ts";

/** A bridge is made, gets its addresses and ports, and is seen to have them; each may show what comes next. */
const ROUNDS = 5;

/** What became of a look. */
export interface Settled {
  /** What was done, and found done. */
  readonly repaired: readonly Step[];
  /** What is still to be done: the kernel refused it, or another program has undone it at once. */
  readonly remaining: readonly Step[];
  readonly refused: readonly DrawbridgeError[];
  /** As it was last seen. */
  readonly observed: ObservedBridge;
}

/**
 * Brings what the kernel has of a bridge to what its pods need: looks, does what is missing, and looks again.
 *
 * @param scope what is looked at first; all of it where the bridge itself was missing or down, since its ports, routes and neighbours go
 *   with it
 * @throws DrawbridgeError when the kernel does not answer
 */
export function settle(kernel: NodeStateKernel, desired: DesiredBridge, scope: Scope): Settled {
  const refused: DrawbridgeError[] = [];
  const done = new Map<string, Step>();
  let current = scope;
  let observed = kernel.observe(desired, current);
  let steps = repairSteps(desired, observed);
  for (let round = 0; round < ROUNDS && steps.length > 0; round++) {
    if (observed.link?.up !== true) current = EVERYTHING;
    const before = new Set(steps.map(stepText));
    refused.push(...kernel.apply(steps));
    for (const step of steps) done.set(stepText(step), step);
    observed = kernel.observe(desired, current);
    steps = repairSteps(desired, observed);
    if (steps.every((step) => before.has(stepText(step))) && current === scope) break;
    if (round > 0 && steps.length === before.size && steps.every((step) => before.has(stepText(step)))) break;
  }
  for (const step of steps) done.delete(stepText(step));
  return { repaired: [...done.values()], remaining: steps, refused, observed };
}

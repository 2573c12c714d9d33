import type { DrawbridgeError } from "../../kernel/error.ts";
import type { DesiredBridge } from "./desired.ts";
import { repairSteps, stepText } from "./difference.ts";
import type { NodeStateKernel, ObservedBridge, Scope, Step } from "./observed.ts";
import { EVERYTHING } from "./observed.ts";

/** A bridge is made, gets its addresses and ports, and is seen to have them; each may show what comes next. */
const ROUNDS = 5;

/** The outcome of a look. */
export interface Settled {
  /** The steps that were done, and found done. */
  readonly repaired: readonly Step[];
  /** The steps that were tried, with any outcome. */
  readonly tried: readonly Step[];
  /** The steps that are still to be done: the kernel refused them, another program has undone them at once, or they were not allowed. */
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
 * @param isAllowed which steps may be done now
 * @throws DrawbridgeError when the kernel does not answer
 */
export function settle(
  kernel: NodeStateKernel,
  desired: DesiredBridge,
  scope: Scope,
  isAllowed: (step: Step) => boolean = () => true,
): Settled {
  const refused: DrawbridgeError[] = [];
  const tried = new Map<string, Step>();
  let current = scope;
  let observed = kernel.observe(desired, current);
  let steps = repairSteps(desired, observed);
  for (let round = 0; round < ROUNDS; round++) {
    const allowed = steps.filter((step) => isAllowed(step));
    const fresh = allowed.filter((step) => !tried.has(stepText(step)));
    // A step that was tried before and is still to be done was refused, or somebody undoes it.
    if (fresh.length === 0) break;
    if (observed.link?.up !== true) current = EVERYTHING;
    refused.push(...kernel.apply(allowed));
    for (const step of allowed) tried.set(stepText(step), step);
    observed = kernel.observe(desired, current);
    steps = repairSteps(desired, observed);
  }
  const left = new Set(steps.map(stepText));
  const all = [...tried.values()];
  return { repaired: all.filter((step) => !left.has(stepText(step))), tried: all, remaining: steps, refused, observed };
}

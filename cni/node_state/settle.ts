import type { DrawbridgeError } from "../../kernel/error.ts";
import type { DesiredBridge } from "./desired.ts";
import { repairSteps, stepText } from "./difference.ts";
import { EVERYTHING, type NodeStateKernel, type ObservedBridge, type Scope, type Step } from "./observed.ts";

/** The most rounds: a bridge is made, gets its addresses and ports, and is read again; each may need a further step. */
const ROUNDS = 5;

/** The outcome of a pass. */
export interface Settled {
  /** The steps that were carried out and had their effect. */
  readonly repaired: readonly Step[];
  /** The steps that were tried, whatever the outcome. */
  readonly tried: readonly Step[];
  /** The remaining steps: the kernel refused them, another program undid them at once, or they were not allowed. */
  readonly remaining: readonly Step[];
  readonly refused: readonly DrawbridgeError[];
  /** The state at the last read. */
  readonly observed: ObservedBridge;
}

/**
 * Reconciles the kernel's state of a bridge with what its pods need: reads it, carries out the missing steps, and reads
 * it again.
 *
 * @param scope the first read's scope. The whole state is read afterwards if the bridge was missing or down, since its
 *   ports, routes and neighbours go with it
 * @param isAllowed which steps may be taken now
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
    // A step that was tried before and remains was refused, or another program undoes it.
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

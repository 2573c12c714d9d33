import { DrawbridgeError } from "../../../kernel/error.ts";
import type { NodeMachine } from "../machine/machine.ts";
import type { Removal } from "./plan.ts";

/** How one removal ended; `failure` says why what it names is left. */
export interface Outcome {
  readonly removal: Removal;
  readonly failure: string | undefined;
}

/** Carries out removals one after the other, whatever becomes of each. */
export function carryOut(machine: Pick<NodeMachine, "remove">, removals: readonly Removal[]): readonly Outcome[] {
  return removals.map((removal) => {
    try {
      machine.remove(removal);
      return { removal, failure: undefined };
    } catch (error) {
      if (error instanceof DrawbridgeError) return { removal, failure: error.message };
      if (error instanceof Error && "code" in error) return { removal, failure: error.message };
      throw error;
    }
  });
}

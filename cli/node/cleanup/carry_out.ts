import { DrawbridgeError } from "../../../kernel/error.ts";
import type { NodeMachine } from "../machine/machine.ts";
import type { Removal } from "./removal.ts";

/** How one removal ended; `failure` says why what it names is left. */
export interface Outcome {
  readonly removal: Removal;
  readonly failure: string | undefined;
}

/**
 * Carries out removals one after the other, whatever becomes of each. A directory stays when it has the only record of a setting that
 * could not be given back.
 */
export function carryOut(machine: Pick<NodeMachine, "remove">, removals: readonly Removal[]): readonly Outcome[] {
  const needed: string[] = [];
  return removals.map((removal) => {
    if (removal.kind === "directory" && needed.some((record) => record.startsWith(`${removal.path}/`))) {
      return { removal, failure: "it has the original values of settings that could not be given back" };
    }
    const failure = failureOf(() => machine.remove(removal));
    if (failure !== undefined && removal.kind === "setting") needed.push(removal.record);
    return { removal, failure };
  });
}

/** Why an action failed; undefined where it did not. A bug stays one. */
export function failureOf(action: () => void): string | undefined {
  try {
    action();
    return undefined;
  } catch (error) {
    if (error instanceof DrawbridgeError) return error.message;
    if (error instanceof Error && "code" in error) return error.message;
    throw error;
  }
}

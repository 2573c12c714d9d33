import { DrawbridgeError } from "../../../kernel/error.ts";
import type { NodeMachine } from "../machine/machine.ts";
import type { Removal } from "./removal.ts";

/** The result of one removal; `failure` says why the thing is left. */
export interface Outcome {
  readonly removal: Removal;
  readonly failure: string | undefined;
}

/**
 * Carries out removals one after the other, whether or not each succeeds. A directory stays when it holds the only
 * record of a setting that could not be restored.
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

/** Returns why an action failed; undefined where it succeeded. A bug is thrown. */
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

import { NodeJudge } from "../../../objects/nodes/node_judge.ts";
import type { ObjectConsumer } from "../../../policyd/component.ts";

/** Components that get everything in order. */
export type InTurn = Required<Pick<ObjectConsumer, "apply" | "synced">>;

/** Returns one component that passes everything on in order, as the daemon does: first the judge, then its readers. */
export function inTurn(...components: readonly ObjectConsumer[]): InTurn {
  return {
    apply: (changes) => {
      let used = changes;
      for (const component of components) {
        if (component instanceof NodeJudge) used = component.apply(changes);
        else component.apply(used);
      }
    },
    synced: () => {
      for (const component of components) component.synced?.();
    },
  };
}

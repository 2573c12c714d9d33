import type { LabPod } from "../../lab/lab.ts";
import { type Contestant, newSide, together } from "../contestant.ts";
import { compared, interleave, type Row } from "../row.ts";
import { sleep } from "../sleep.ts";
import { type Context, PEER, type Scenario } from "./context.ts";

const CLEANUP_MILLISECONDS = 10_000;

/**
 * Measures this number of ADDs at once on a node that has no bridge yet, as after a boot: the first one also makes the
 * bridge and reads the kernel's types for its program.
 */
export function parallel(count: number, ratioAtMost = 0.75): Scenario {
  const title = count === 1 ? "the first ADD after a boot" : `${count} ADDs at once`;
  return (context: Context): readonly Row[] => {
    const pods = Array.from({ length: count }, (_, i) => context.lab.pod(`parallel-${count}-${i}`));
    const measure = (contestant: Contestant) => (round: number) => timeTogether(context, contestant, pods, round);
    const pairs = interleave(context.pairs, measure(context.ours), measure(context.peer), (done) =>
      context.progress(`${title} ${done}/${context.pairs}`),
    );
    for (const pod of pods) context.lab.remove(pod);
    return [compared(title, "ms", PEER, pairs, { ratioAtMost })];
  };
}

/** Returns the milliseconds from the start of the first until the end of the last. */
function timeTogether(context: Context, contestant: Contestant, pods: readonly LabPod[], round: number): number {
  const side = newSide(context, contestant, `parallel-${pods.length}-${round}`);
  const milliseconds = together(side, "ADD", pods);
  context.lab.remove(side.node);
  waitUntilBare(pods);
  return milliseconds;
}

/**
 * Waits until the pods' links are gone. They are removed with their node, all in one sweep, and this wait keeps the
 * kernel's clean-up out of the next round.
 *
 * @throws Error when they are still there after {@link CLEANUP_MILLISECONDS}
 */
function waitUntilBare(pods: readonly LabPod[]): void {
  const deadline = performance.now() + CLEANUP_MILLISECONDS;
  for (const pod of pods) {
    while (pod.links().some(({ name }) => name === "eth0")) {
      if (performance.now() > deadline)
        throw new Error(`${pod.name} still has its link after ${CLEANUP_MILLISECONDS} ms`);
      sleep(2);
    }
  }
}

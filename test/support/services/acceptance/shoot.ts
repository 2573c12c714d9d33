import type { Flow } from "../../../lab/probe/prober.ts";
import type { AcceptanceLab } from "./acceptance_lab.ts";
import type { Result, Shot } from "./measured.ts";

/**
 * The longest wait for an answer, which comes at once, or for a refusal by the node's own TCP after a second; the rest
 * is for a busy machine.
 */
const ANSWER_MILLISECONDS = 60_000;

interface ShotFlow extends Flow {
  readonly shot: Shot;
}

/** Sends shots, many at a time. */
export async function shoot(
  lab: AcceptanceLab,
  shots: readonly Shot[],
  timeoutMilliseconds = ANSWER_MILLISECONDS,
): Promise<readonly Result[]> {
  const flows = shots.map((shot): ShotFlow => {
    const from = lab.namespace(shot.from);
    return { shot, protocol: shot.transport, from, to: lab.world.socketOf(shot.probe.to, shot.family) };
  });
  const placeOf = new Map([...lab.places].map(([place, namespace]) => [namespace, place]));
  const results = await lab.lab.prober.run(flows, { timeoutMilliseconds });
  return results.map(({ flow: { shot }, reached, seenBy, seenSource, why }) => ({
    shot,
    reached,
    seenBy: seenBy === undefined ? undefined : placeOf.get(seenBy),
    seenSource,
    why,
  }));
}

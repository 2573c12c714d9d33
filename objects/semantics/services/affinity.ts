import type { Service } from "../../model.ts";
import { keptTimeouts, timeoutFor, usedTimeout } from "../../timeout_choice.ts";
import { omit } from "./endpoint.ts";
import type { SocketAddress } from "./packet.ts";
import type { Selection } from "./selection.ts";
import type { Affinity } from "./verdict.ts";
import type { ServiceWorld } from "./world.ts";

/** Timeouts by the Services of a world: thousands of packets are evaluated in one world. */
const known = new WeakMap<readonly Service[], readonly number[]>();

/**
 * Narrows a selection to the endpoint that a client had, if the selection still contains it (SA-01, SA-07, SA-08).
 *
 * @param remembered where the client was sent last within the timeout, by any frontend of the port (SA-05)
 */
export function applyAffinity(
  { services }: Pick<ServiceWorld, "services">,
  { affinitySeconds }: Service,
  selection: Selection,
  remembered: SocketAddress | undefined,
): Selection & { readonly affinity: Affinity } {
  if (affinitySeconds === undefined) return { ...selection, affinity: { type: "none" } };
  const timeoutSeconds = timeoutFor(affinitySeconds, keptOf(services));
  const affinity = { type: "client", timeoutSeconds } as const;
  const kept = selection.selected.find(
    ({ endpoint: { socket } }) => socket.address === remembered?.address && socket.port === remembered.port,
  );
  if (kept === undefined) return { ...selection, affinity };
  const others = selection.selected.filter((one) => one !== kept);
  return {
    hints: selection.hints,
    selected: [{ ...kept, because: [...kept.because, { type: "client's endpoint" }] }],
    omitted: [...selection.omitted, ...others.map((one) => omit(one.endpoint, "client has another endpoint"))],
    affinity,
  };
}

/** Returns the timeouts that clients of these Services can stay for (SA-02). */
function keptOf(services: readonly Service[]): readonly number[] {
  const found = known.get(services);
  if (found !== undefined) return found;
  const kept = keptTimeouts(services.map(usedTimeout).filter((seconds) => seconds !== undefined));
  known.set(services, kept);
  return kept;
}

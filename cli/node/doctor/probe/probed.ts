import type { ProbeFlow } from "./flow.ts";
import type { Loss } from "./loss.ts";

/** The outcome of a probe. */
export interface Probed {
  readonly lost: readonly { readonly flow: ProbeFlow; readonly loss: Loss }[];
  /** Why the probe pods could not be attached. */
  readonly failure: string | undefined;
}

/**
 * Whether a server has a kind, and in which versions, as far as that is known.
 *
 * - `required`: every server has it, so that 404 is a failure like any other.
 * - `unknown`: not every server has it, and only its list says whether this one does.
 * - `pending`: as `unknown`, and what defines the kind is about to say more.
 * - `served`: its definition says that the server has it; 404 means that the server has not caught up with itself.
 * - `withheld`: it is defined, but not served in a version that we know: its objects may be there and cannot be read.
 * - `gone`: it is not defined, so one 404 is enough.
 * - `dispensable`: we can do without it, also where we have no right to see it.
 */
export interface Serving {
  readonly type: "required" | "unknown" | "pending" | "served" | "withheld" | "gone" | "dispensable";
  /** The versions to ask for, the newest first, by their index; at least one. */
  readonly versions: readonly number[];
}

/** A kind that every server has, in one version. */
export const REQUIRED: Serving = Object.freeze({ type: "required", versions: [0] });

/** The version that is asked for first. */
export function newestOf({ versions }: Serving): number {
  return versions[0] ?? 0;
}

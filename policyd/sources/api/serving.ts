/**
 * Whether a server has a kind, and in which versions, as far as that is known.
 *
 * - `required`: every server has it, so that 404 is a failure like any other.
 * - `unknown`: not every server has it, and only its list shows whether this one does.
 * - `pending`: as `unknown`, and an answer about its definition is expected.
 * - `served`: its definition says that the server has it; 404 means that the server does not serve it yet.
 * - `withheld`: it is defined, but not served in a version that we know: its objects may exist and cannot be read.
 * - `gone`: it is not defined, so one 404 is enough.
 * - `dispensable`: we can do without it, also where we have no right to read it.
 */
export interface Serving {
  readonly type: "required" | "unknown" | "pending" | "served" | "withheld" | "gone" | "dispensable";
  /** The indexes of the versions to request, the newest first; at least one. */
  readonly versions: readonly number[];
}

/** A kind that every server has, in one version. */
export const REQUIRED: Serving = Object.freeze({ type: "required", versions: [0] });

/** Returns the index of the version to request first. */
export function newestOf({ versions }: Serving): number {
  return versions[0] ?? 0;
}

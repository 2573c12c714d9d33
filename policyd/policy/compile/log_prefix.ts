import type { Direction } from "./profile.ts";

/** What a logged packet met. */
export interface LogOrigin {
  readonly direction: Direction;
  /** The profile's. */
  readonly key: string;
  /** "would drop" passes on: a policy in shadow would have dropped it. */
  readonly outcome: "drop" | "would drop";
}

const OUTCOMES = { drop: "drop", "would drop": "shadow" } as const;

/** The prefix of a profile's log rules: `drawbridge egress 0123456789abcdef drop`. */
export function logPrefix({ direction, key, outcome }: LogOrigin): string {
  return `drawbridge ${direction} ${key} ${OUTCOMES[outcome]}`;
}

/** What a prefix says; undefined for one that is not of {@link logPrefix}. */
export function parseLogPrefix(prefix: string): LogOrigin | undefined {
  const [, direction, key, outcome] =
    /^drawbridge (egress|ingress) ([0-9a-f]{16,32}) (drop|shadow)$/.exec(prefix) ?? [];
  if (key === undefined || (direction !== "egress" && direction !== "ingress")) return undefined;
  return { direction, key, outcome: outcome === "drop" ? "drop" : "would drop" };
}

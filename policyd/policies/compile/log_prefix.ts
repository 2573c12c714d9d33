import type { Direction } from "./profile.ts";

/** The rule that logged a packet. */
export interface LogOrigin {
  readonly direction: Direction;
  /** The profile's key. */
  readonly key: string;
  /** "would drop": a policy in shadow would have dropped the packet, which continues. */
  readonly outcome: "drop" | "would drop";
}

const OUTCOMES = { drop: "drop", "would drop": "shadow" } as const;

/** Returns the prefix of a profile's log rules: `drawbridge egress 0123456789abcdef drop`. */
export function logPrefix({ direction, key, outcome }: LogOrigin): string {
  return `drawbridge ${direction} ${key} ${OUTCOMES[outcome]}`;
}

/** Parses a prefix; undefined for one that is not of {@link logPrefix}. */
export function parseLogPrefix(prefix: string): LogOrigin | undefined {
  const [, direction, key, outcome] =
    /^drawbridge (egress|ingress) ([0-9a-f]{16,32}) (drop|shadow)$/.exec(prefix) ?? [];
  if (key === undefined || (direction !== "egress" && direction !== "ingress")) return undefined;
  return { direction, key, outcome: outcome === "drop" ? "drop" : "would drop" };
}

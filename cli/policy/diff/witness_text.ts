import { trafficText } from "../../output/text.ts";
import type { ChangeType } from "./pair_change.ts";
import type { Reason, Witness } from "./witness.ts";

/** A change in words, without colour and unfolded, as each form for people has it. */
export interface InWords {
  readonly type: ChangeType;
  /** `opens`, with a note that a workload is new or gone. */
  readonly word: string;
  /** The change itself, then its witness with the reasons. */
  readonly head: string;
  readonly lines: readonly string[];
  /** The rows and columns of a page, and the ends of arrows. */
  readonly from: readonly string[];
  readonly to: readonly string[];
  readonly connections: string;
  /** The words at an arrow; undefined where nothing is let in. */
  readonly label: string | undefined;
}

/** Returns the connection of a witness: `shop/web-0 -> shop/db-0 5432/TCP`. */
export function exampleText(witness: Witness): string {
  return `${witness.source} -> ${witness.destination} ${trafficText(witness)}`;
}

/** Returns the reasons before and after, a line each. */
export function reasonLines({ ends }: Witness): readonly string[] {
  const lines = ends.flatMap(({ direction, before, after }) => [
    `before: ${reasonText(direction, before)}`,
    `after:  ${reasonText(direction, after)}`,
  ]);
  // The absence of an end is the same line for both ends.
  return [...new Set(lines)];
}

/** Returns a reason with its verdict: `ingress denied: isolated by NetworkPolicy shop/db`. */
export function reasonText(direction: string, { allowed, reason, places }: Reason): string {
  if (!allowed && places.length === 0) return reason;
  return `${direction} ${allowed ? "allowed" : "denied"}: ${reason}`;
}

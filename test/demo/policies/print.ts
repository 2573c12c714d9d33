import type { Paint } from "../table.ts";
import { verdict } from "../table.ts";
import type { CutResult } from "./cut.ts";
import { isCut } from "./cut.ts";
import type { PoliciesResult } from "./result.ts";

/** What each policy lets its pod do, a line each. */
export function policyLines({ policies }: PoliciesResult): readonly string[] {
  return policies.map(({ pod, words }) => `  ${pod}: ${words}`);
}

/** The count of cells that policies open and close. */
export function policySummary({ expected, seen, differences }: PoliciesResult, paint: Paint): string {
  const allowed = expected.filter(({ reached }) => reached).length;
  const answered = seen.filter(({ reached }) => reached).length;
  return verdict(
    paint,
    differences.length === 0,
    `with policies ${answered} of ${seen.length} flows answered, ${allowed} expected; ${differences.length} cells differ`,
  );
}

/** What became of the live flows. */
export function cutLines({ flows, windowMilliseconds }: CutResult, paint: Paint): readonly string[] {
  const isGood = isCut({ flows, windowMilliseconds });
  return [
    verdict(paint, isGood, `live flows in ${windowMilliseconds} ms each: before a denial, under it, and allowed again`),
    ...flows.map(({ protocol, source, target, before, denied, after }) => {
      const phases = [before, denied, after].map(sizeText).join(", ");
      return `    ${source} → ${target} ${protocol}: ${phases}`;
    }),
  ];
}

function sizeText(bytes: number): string {
  return bytes < 10_000 ? `${bytes} B` : `${(bytes / 1e6).toFixed(1)} MB`;
}

import { type Paint, verdict } from "../table.ts";
import { type CutResult, isCut, isPredicted, isInForceEverywhere } from "./cut.ts";
import type { PoliciesResult } from "./result.ts";

/** Returns a line for each policy about what it allows its pod. */
export function policyLines({ policies }: PoliciesResult): readonly string[] {
  return policies.map(({ pod, words }) => `  ${pod}: ${words}`);
}

/** Returns the numbers of cells that policies allow and deny. */
export function policySummary({ expected, seen, differences }: PoliciesResult, paint: Paint): string {
  const allowed = expected.filter(({ reached }) => reached).length;
  const answered = seen.filter(({ reached }) => reached).length;
  return verdict(
    paint,
    differences.length === 0,
    `with policies ${answered} of ${seen.length} flows answered, ${allowed} expected; ${differences.length} cells differ`,
  );
}

/** Returns lines about the live flows. */
export function cutLines(cut: CutResult, paint: Paint): readonly string[] {
  const { flows, windowMilliseconds, deniedAfterMilliseconds } = cut;
  const phases = `before a denial, ${deniedAfterMilliseconds.toFixed(0)} ms after it, and allowed again`;
  return [
    verdict(paint, isCut(cut), `live flows in ${windowMilliseconds} ms each: ${phases}`),
    ...flows.map(({ protocol, source, target, before, denied, after }) => {
      const sizes = [before, denied, after].map(sizeText).join(", ");
      return `    ${source} → ${target} ${protocol}: ${sizes}`;
    }),
    verdict(
      paint,
      isPredicted(cut),
      `policy dry-run --live, before it: ${cut.predicted.length} connections would be cut, both of these among them`,
    ),
    verdict(
      paint,
      isInForceEverywhere(cut),
      `policy status, after it: in force on ${cut.inForceOn.length} of ${cut.nodes} nodes`,
    ),
  ];
}

function sizeText(bytes: number): string {
  return bytes < 10_000 ? `${bytes} B` : `${(bytes / 1e6).toFixed(1)} MB`;
}

import type { PolicyDiff } from "./diff.ts";
import type { Sides } from "./end_class.ts";
import { mergeAlike } from "./merge.ts";
import type { DiffReport } from "./print.ts";
import { type Locations, witnessOf } from "./witness.ts";

/**
 * Returns a diff with a witness for each change.
 *
 * @param ways from `wayChanges`
 * @param isMerged whether groups with equal changes are merged
 */
export function diffReport(
  sides: Sides,
  locations: Locations,
  { ways, ...diff }: PolicyDiff & Pick<DiffReport, "ways">,
  isMerged: boolean,
): DiffReport {
  const changes = isMerged
    ? mergeAlike(diff.changes, diff.groups)
    : diff.changes.map((one) => ({ ...one, from: [one.from.name], to: [one.to.name] }));
  return {
    changes: changes.map((one) => ({ ...one, witness: witnessOf(sides, locations, one.change, one.example) })),
    ways,
    appeared: diff.appeared,
    gone: diff.gone,
  };
}

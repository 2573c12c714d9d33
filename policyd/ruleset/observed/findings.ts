import { isOfDaemon } from "../../../attachment/our_tables.ts";
import type { Logger } from "../../log/logger.ts";
import { tableKey } from "../desired/desired_element.ts";
import type { TableFindings } from "./table_reading.ts";

/** Logs which tables are written as a whole, at the start or after a failure. @returns their number */
export function logReplacements(logger: Logger, found: readonly TableFindings[]): number {
  const whole = found.filter(({ isWhole }) => isWhole);
  for (const { table, problems, comment, isPresent } of whole) {
    const fields = { table: tableKey(table) };
    if (isPresent && !isOfDaemon(comment))
      logger.warn("a table with our name was not written by Drawbridge and is replaced", fields);
    logger.info("a table is written as a whole", { ...fields, because: problems[0] });
  }
  return whole.length;
}

/** Logs what another program has changed. @returns the number of objects and elements, and of tables as a whole */
export function logRepairs(
  logger: Logger,
  found: readonly TableFindings[],
): { readonly repairs: number; readonly replacements: number } {
  let repairs = 0;
  let replacements = 0;
  for (const { table, isWhole, problems, wrongElements, wrongSets } of found) {
    if (problems.length + wrongElements === 0) continue;
    const wrong = [...problems, ...wrongSets.map((set) => `set ${set}: other elements`)];
    logger.warn("another program changed a table of ours; it is repaired", {
      table: tableKey(table),
      found: wrong.slice(0, 3).join("; "),
    });
    repairs += problems.length + wrongElements;
    if (isWhole) replacements++;
  }
  return { repairs, replacements };
}

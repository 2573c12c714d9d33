import type { LabelRequirement, LabelSelector } from "../model.ts";
import { expectLabelKey, expectLabelValue, readLabels } from "../name.ts";
import { invalid, Reader } from "./reader.ts";

const OPERATORS = ["In", "NotIn", "Exists", "DoesNotExist"] as const;

/**
 * Reads a label selector; an absent or empty one selects everything. A selector that cannot be read as a whole is
 * refused, since the rest of it would select more.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readSelector(selector: Reader): LabelSelector {
  return Object.freeze({
    matchLabels: readLabels(selector, "matchLabels"),
    matchExpressions: selector.all("matchExpressions", readRequirement),
  });
}

function readRequirement(value: unknown, field: string): LabelRequirement {
  const entry = new Reader(value, field);
  const operator = OPERATORS.find((candidate) => candidate === entry.get("operator"));
  if (operator === undefined) {
    throw invalid(entry.path("operator"), entry.get("operator"), `one of ${OPERATORS.join(", ")}`);
  }
  const values = entry.all("values", expectLabelValue);
  const wantsValues = operator === "In" || operator === "NotIn";
  if (wantsValues !== values.length > 0) {
    throw invalid(
      entry.path("values"),
      `${values.length} values`,
      wantsValues ? `at least one for ${operator}` : `none for ${operator}`,
    );
  }
  return Object.freeze({ key: expectLabelKey(entry.get("key"), entry.path("key")), operator, values });
}

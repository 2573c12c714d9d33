import { type Direction, DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import * as v from "valibot";
import { DrawbridgeError } from "../../../kernel/error.ts";
import type { Pod } from "../../../objects/model.ts";
import { ExitCode, type Io } from "../../io.ts";
import { shownBy, shownEntries } from "../../input/shown.ts";
import { policyInputEntries, readPolicyInput, tellLeftOut } from "../policy_input.ts";
import { formatTable } from "../../output/table.ts";
import { counted } from "../../output/text.ts";
import { cellText } from "../matrix/cell.ts";
import { formatList } from "../matrix/list.ts";
import { matrixOf } from "../matrix/matrix.ts";
import { wayInRows } from "../matrix/way_in_end.ts";
import { withNewPods } from "../question_ends.ts";
import { COVERAGE_FORMATS } from "./command.ts";
import { type Coverage, coverageOf } from "./coverage.ts";

const optionsSchema = v.object({
  ...policyInputEntries,
  ...shownEntries,
  output: v.picklist(COVERAGE_FORMATS),
});

/**
 * Prints the coverage.
 *
 * @throws DrawbridgeError as loadManifests, and ERR_INPUT without a pod that policies may select
 */
export async function runCoverage(io: Io, options: unknown): Promise<ExitCode> {
  const { output, ...input } = v.parse(optionsSchema, options);
  const read = await readPolicyInput(io, input);
  const waysIn = wayInRows(io, read);
  const { index, young } = withNewPods(read);
  const isShown = shownBy(input);
  const isCovered = (pod: Pod): boolean => !pod.hostNetwork && isShown(pod.namespace, pod.labels);
  const matrix = matrixOf(index, "workload", { newPods: young.names, waysIn, isShown: isCovered, from: "outside" });
  const coverage = coverageOf(index, matrix, young);
  if (coverage.pods === 0) throw new DrawbridgeError("ERR_INPUT", "no pod that policies may select; expected some");
  if (output === "json") io.out.write(`${JSON.stringify(coverage, null, 2)}\n`);
  else {
    io.out.write(`${lineText(coverage)}\n`);
    if (output === "table") {
      io.out.write(tableText(coverage, io.out.columns));
      const form = { columns: io.out.columns, hasDittoMarks: false, isAllowedOnly: true, first: "to" } as const;
      io.out.write(`\n${formatList(matrix, cellText([]), { ...form, isOutsideOnly: true, isQuestion: false })}`);
    }
  }
  tellLeftOut(io, read, index);
  return ExitCode.YES;
}

/** Returns the numbers in one line, for CI. */
function lineText({ pods, selected, namespaces, outside }: Coverage): string {
  const closed = (direction: Direction): number => namespaces.filter((one) => one[direction]).length;
  const parts = DIRECTIONS.flatMap((direction) => [
    `${direction} ${selected[direction]}/${pods} pods (${Math.floor((selected[direction] * 100) / pods)}%)`,
    `${closed(direction)}/${namespaces.length} namespaces closed by default`,
  ]);
  const reached = counted(new Set(outside.map(({ to }) => to)).size, "workload");
  return `coverage: ${parts.join(", ")}; the outside reaches ${reached}`;
}

function tableText({ unselected, namespaces }: Coverage, columns: number): string {
  const open = namespaces.map((one) => [one.name, DIRECTIONS.filter((direction) => !one[direction]).join(", ")]);
  const tables = [
    [["no policy selects", "for"], unselected.map(({ name, directions }) => [name, directions.join(", ")])],
    [["open by default", "for"], open.filter(([, directions]) => directions !== "")],
  ] as const;
  return tables.map(([head, rows]) => (rows.length === 0 ? "" : `\n${formatTable(head, rows, columns)}`)).join("");
}

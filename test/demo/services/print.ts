import type { Family } from "../../../kernel/ip/address.ts";
import { answersText, cellKey, type SeenCell } from "./cells.ts";
import { CLIENTS } from "./expectation.ts";
import type { ServicesResult } from "./result.ts";
import { newTable, type Paint, verdict } from "../table.ts";

/** The width of a cell including the mark, which keeps the table within 100 columns. */
const WIDEST_CELL = 16;

/** The explanation of the tables of Services. */
export const SERVICES_KEY =
  '"b c e as node1": pods b, c and e answered, each seeing node1 as the sender. "-": no answer.\n' +
  "The router stands for a client outside of the cluster; it sends all Service addresses to node1, and knows no pods.";

/** Returns a table of the answers to each client at each frontend, in one family. */
export function servicesTable({ expected, seen, differences }: ServicesResult, family: Family, paint: Paint): string {
  const cells = new Map(seen.map((cell) => [cellKey(cell), cell]));
  const wrong = new Set(differences.map(cellKey));
  const table = newTable(["", ...CLIENTS]);
  for (const frontend of new Set(expected.map((cell) => cell.frontend))) {
    const texts = CLIENTS.map((client) => {
      const key = cellKey({ frontend, client, family });
      const text = cellText(cells.get(key));
      if (!wrong.has(key)) return text;
      // The mark also shows it where there is no colour.
      return paint("red", `${text.length < WIDEST_CELL ? text : "mixed"}!`);
    });
    table.push([frontend, ...texts]);
  }
  return table.toString();
}

/** Returns the count, and a line for each difference; equal ones of both families are one line. */
export function servicesLines({ seen, differences }: ServicesResult, paint: Paint): readonly string[] {
  const connections = seen.reduce((sum, cell) => sum + cell.connections, 0);
  const groups = Map.groupBy(differences, ({ frontend, client, expected, saw }) =>
    [frontend, client, expected, saw].join("\n"),
  );
  return [
    verdict(
      paint,
      differences.length === 0,
      `${seen.length - differences.length} of ${seen.length} Service cells as expected, by ${connections} connections`,
    ),
    ...[...groups.values()].flatMap((group) => {
      const families = group.map(({ family }) => `IPv${family}`).join(" and ");
      return group
        .slice(0, 1)
        .flatMap(({ frontend, client, expected, saw }) => [
          `    ${client} → ${frontend}, over ${families}: expected ${expected}`,
          `        saw ${saw}`,
        ])
        .map((line) => paint("red", line));
    }),
  ];
}

function cellText(cell: SeenCell | undefined): string {
  if (cell === undefined) return "?";
  const answers = cell.answers.map((answer) => ({ ...answer, as: answer.as.replace(/'s .*/, "") }));
  const failures = cell.failures.map((failure) => (failure.startsWith("no answer") ? "-" : failure));
  return [...answersText(answers), ...new Set(failures)].join(", ");
}

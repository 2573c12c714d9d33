import { styleText } from "node:util";
import Table from "cli-table3";
import { type Chart, type DemoResult, isAsExpected } from "./result.ts";

/** Colours a text where the stream supports colour (a terminal, and NO_COLOR unset). */
type Paint = (style: "red" | "green" | "bold", text: string) => string;

/** The number of lines of one check that are printed; the others are only counted. */
const MOST_DETAILS = 12;
/** The width of a cell, which keeps the widest table within 100 columns. */
const WIDEST_CELL = 16;

const KEY = [
  '"TUIS" and "T---": TCP, UDP, ICMP and SCTP are answered, or only TCP; a small letter: with another source address.',
  '"b c e as node1": pods b, c and e answered, each seeing node1 as the sender. "-": no answer. "!": not as expected.',
  "The router stands for a client outside of the cluster; it sends all Service addresses to node1, and knows no pods.",
].join("\n");

/** Formats the demo's result for people. */
export function formatResult(result: DemoResult, stream: NodeJS.WriteStream): string {
  const paint: Paint = (style, text) => styleText(style, text, { stream });
  const { broken, pods, charts, policies, checks, milliseconds } = result;
  const seconds = (milliseconds / 1000).toFixed(1);
  return [
    ...(broken === undefined ? [] : [paint("bold", `Broken on purpose: ${broken}`), ""]),
    paint("bold", "Pods"),
    tableOf(["pod", "node", "IPv4", "IPv6", "ADD ms", "DEL ms"], pods),
    ...charts.flatMap((chart) => ["", paint("bold", chart.title), chartTable(chart, paint)]),
    KEY,
    "",
    paint("bold", "Policies: who may send to a pod"),
    ...policies.map((line) => `  ${line}`),
    "",
    ...checks.flatMap(({ isGood, text, details = [] }) => {
      const rest = details.length - MOST_DETAILS;
      const lines = [...details.slice(0, MOST_DETAILS), ...(rest > 0 ? [`and ${rest} more; all with -o json`] : [])];
      return [
        `${isGood ? paint("green", "✓") : paint("red", "✗")} ${text}`,
        ...lines.map((line) => (isGood ? `    ${line}` : paint("red", `    ${line}`))),
      ];
    }),
    "",
    isAsExpected(result)
      ? paint("green", `Everything as expected, in ${seconds} s.`)
      : paint("red", `Not as expected; took ${seconds} s.`),
    "",
  ].join("\n");
}

/** Returns a table in which cells that are not as expected have a mark, which shows them also without colour. */
function chartTable({ columns, rows }: Chart, paint: Paint): string {
  const lines = rows.map(({ name, cells }) => [
    name,
    ...cells.map(({ seen, isGood }) =>
      isGood ? seen : paint("red", `${seen.length < WIDEST_CELL ? seen : "mixed"} !`),
    ),
  ]);
  return tableOf(["", ...columns], lines);
}

/** Returns a table whose head and borders have no colour, which cli-table3 adds by default. */
function tableOf(head: readonly string[], lines: readonly (readonly string[])[]): string {
  const table = new Table({ head: [...head], style: { head: [], border: [], compact: true } });
  table.push(...lines.map((line) => [...line]));
  return table.toString();
}

import { markdownGraph } from "../../output/graph.ts";
import { inMarkdown, type Markdown, markdownCode, markdownTable, markdownWords } from "../../output/markup.ts";
import { areAsked, cellsOf, cellText } from "./cell.ts";
import type { Asked, Matrix } from "./matrix.ts";
import { matrixGraph, WIDEST_GRID } from "./print.ts";

const MOST_ROWS = 300;

/**
 * Returns a matrix as Markdown: a small one as a grid, otherwise the pairs between which something is allowed. A picture
 * follows where it is not too large.
 */
export function matrixMarkdown(matrix: Matrix, asked: Asked): Markdown {
  return matrix.groups.length === 0
    ? inMarkdown`There are no pods.\n`
    : inMarkdown`${matrixTable(matrix, asked)}${markdownGraph(matrixGraph(matrix, asked))}`;
}

function matrixTable(matrix: Matrix, { ports }: Asked): Markdown {
  const textOf = cellText(ports);
  const { sources, destinations, between } = matrix;
  const words = (text: string): Markdown => (text === "" ? inMarkdown`–` : markdownCode(text));
  if (Math.max(sources.length, destinations.length) <= WIDEST_GRID) {
    const rows = sources.map((from) => [
      markdownCode(from.name),
      ...destinations.map((to) => (areAsked(from, to) ? words(textOf(between(from, to))) : inMarkdown``)),
    ]);
    return markdownTable([inMarkdown`from \\ to`, ...destinations.map(({ name }) => markdownCode(name))], rows);
  }
  const open = [...cellsOf(matrix, true, textOf)];
  const rows = open
    .slice(0, MOST_ROWS)
    .map(({ from, to, connections }) => [markdownCode(from.name), markdownCode(to.name), words(textOf(connections))]);
  const more = open.length > MOST_ROWS ? inMarkdown`\nand ${open.length - MOST_ROWS} more pairs\n` : inMarkdown``;
  return inMarkdown`${markdownTable(["from", "to", "connections"].map(markdownWords), rows)}${more}`;
}

import { createHash } from "node:crypto";
import { printable } from "../../../objects/printable.ts";
import { VERSION } from "../../../policyd/version.ts";
import { type Html, inHtml, joined, markupText, scriptData } from "../markup.ts";
import { timeText } from "../text.ts";
import { PAGE_SCRIPT } from "./script.ts";
import { PAGE_STYLE } from "./style.ts";

/** The state of a cell, which decides its look. */
export type CellState = "all" | "ports" | "part" | "none" | "opens" | "closes" | "both";

/** A cell that is not empty. */
export interface HeatCell {
  readonly row: number;
  readonly column: number;
  readonly state: CellState;
  /** The connections that are allowed, or that change. */
  readonly text: string;
  /** The explanation, with line breaks; empty where there is none. */
  readonly why: string;
}

/** A heat map: senders are rows, receivers are columns. The part of a name before its first "/" is its box. */
export interface Heat {
  readonly rows: readonly string[];
  readonly columns: readonly string[];
  readonly cells: readonly HeatCell[];
}

/** The contents of a page. */
export interface PageContent {
  readonly title: string;
  /** The sentences below the title. */
  readonly facts: readonly string[];
  readonly heat: Heat;
  /** The meaning of each state that occurs. */
  readonly legend: readonly (readonly [state: CellState, text: string])[];
  /** The changes in order; empty for a matrix. */
  readonly changes: readonly PageChange[];
}

export interface PageChange {
  readonly state: "opens" | "closes";
  /** The first word of the head, in the state's colour. */
  readonly word: string;
  readonly head: string;
  readonly lines: readonly string[];
}

/**
 * Yields one page of HTML that needs no network and no other file, light or dark as its reader's browser asks.
 *
 * Every text from objects and file names is escaped or, for the script, data in JSON, which the script shows only as
 * text. The page's policy allows that one script, by its hash, and loads nothing.
 *
 * @param sources the files, or the word `cluster`, that the objects are from; the foot has them and the time of now
 */
export function* formatPage(content: PageContent, sources: readonly string[]): Generator<Html> {
  const { title, facts, legend, changes } = content;
  // The style sheet contains no text from objects or files.
  const policy = inHtml`default-src 'none'; script-src '${hashOf(PAGE_SCRIPT)}'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'`;
  yield inHtml`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${markupText(title)}</title>
<style>${PAGE_STYLE}</style>
</head>
<body>
<header>
<h1>${markupText(title)}</h1>
${facts.map((fact) => inHtml`<p>${markupText(fact)}</p>\n`)}</header>
`;
  if (changes.length > 0)
    yield inHtml`<section id="changes"><h2>What changes</h2>\n${changes.map(changeText)}</section>\n`;
  yield inHtml`<section id="matrix">
<h2>From row to column</h2>
<p class="tools"><label>from <input id="from" type="search" placeholder="name" autocomplete="off"></label>
<label>to <input id="to" type="search" placeholder="name" autocomplete="off"></label>
<button id="by" type="button" aria-pressed="false">by namespace</button>
${joined(
  legend.map(
    ([state, text]) => inHtml`<span class="key"><i class="${markupText(state)}"></i>${markupText(text)}</span>`,
  ),
  "\n",
)}</p>
<div class="sheet"><div class="heat"><table id="heat"></table></div>
<aside id="why" aria-live="polite"><p>Choose a cell to see why: click it, or move to it with the arrow keys and press Enter.</p></aside></div>
</section>
`;
  yield inHtml`<footer>Read from ${markupText(sources.join(", "))} at ${markupText(timeText(Date.now()))} UTC by Drawbridge ${markupText(VERSION)}. This page loads nothing and sends nothing.</footer>
<noscript><p>The table is drawn by the page's own script, which is switched off.</p></noscript>
<script type="application/json" id="data">${dataText(content)}</script>
<script>${PAGE_SCRIPT}</script>
</body>
</html>
`;
}

function changeText({ state, word, head, lines }: PageChange): Html {
  const reasons = lines.map((line) => inHtml`<li>${markupText(line)}</li>`);
  return inHtml`<details class="${markupText(state)}"><summary><b>${markupText(word)}</b> ${markupText(head)}</summary><ul>${reasons}</ul></details>\n`;
}

/** Returns the script's data. Equal texts are stored once: most cells of a large matrix have the same. */
function dataText({ heat: { rows, columns, cells }, changes }: PageContent): Html {
  const numbers = new Map<string, number>();
  const numberOf = (text: string): number => {
    const known = numbers.get(text) ?? numbers.size;
    numbers.set(text, known);
    return known;
  };
  const numbered = cells.map(({ row, column, state, text, why }) => [
    row,
    column,
    state,
    numberOf(text),
    numberOf(why),
  ]);
  const texts = [...numbers.keys()].map((text) => text.split("\n").map(printable).join("\n"));
  const [across, down] = [columns, rows].map((names) => names.map(printable));
  return scriptData({ isChange: changes.length > 0, rows: down, columns: across, cells: numbered, texts });
}

function hashOf(script: string): Html {
  return inHtml`sha256-${markupText(createHash("sha256").update(script).digest("base64"))}`;
}

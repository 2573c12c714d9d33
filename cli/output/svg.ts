import type { Edge, Graph } from "./graph.ts";
import { markupText } from "./markup.ts";

/** Sizes in pixels. */
const ROW = 20;
const GAP = 10;
const HEAD = 26;
const MARGIN = 16;
const WIRES = 260;
/** The approximate width of a letter of 13 pixels. */
const LETTER = 7.6;
const SHORTEST = 120;
/** Labels are smaller than names. */
const SMALL = 0.8;
/** Longer names and labels are shortened; the title element holds the whole text. */
const MOST_LETTERS = 44;

/** A name in one of the two columns. */
interface Block {
  readonly name: string;
  readonly y: number;
  readonly height: number;
}

/** A column of blocks under headings, one for each box. */
interface Column {
  readonly blocks: ReadonlyMap<string, Block>;
  readonly headings: readonly { readonly text: string; readonly y: number }[];
  readonly height: number;
}

const STYLE =
  "text{font:13px ui-monospace,Menlo,Consolas,monospace;fill:#1f2328}.b{font-weight:600}.n{fill:#f6f8fa;stroke:#d0d7de}" +
  ".e{fill:none;stroke:#57606a;stroke-width:1.2;opacity:.7}.p{stroke-dasharray:5 4}.a{fill:#57606a}.l{font-size:11px;fill:#57606a;stroke:#fff;stroke-width:5;paint-order:stroke}" +
  ".g{fill:#ffffff}@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#161b22;stroke:#30363d}.e{stroke:#8b949e}" +
  ".a,.l{fill:#8b949e}.l{stroke:#0d1117}.g{fill:#0d1117}}";

/**
 * Draws a graph as a self-contained picture, light or dark as its reader's browser asks: senders on the left and
 * receivers on the right, in boxes by the part of their names before the first "/"; each arrow ends in its own line and
 * label.
 */
export function formatSvg(graph: Graph): string {
  const edges = graph.edges.toSorted((a, b) => compare(a.to, b.to) || compare(a.from, b.from));
  const incoming = Map.groupBy(edges, ({ to }) => to);
  const senders = new Set(edges.map(({ from }) => from));
  const left = columnOf(
    graph.names.filter((name) => senders.has(name)),
    () => 1,
  );
  const right = columnOf(graph.names, (name) => Math.max(1, (incoming.get(name) ?? []).length));
  const leftWidth = widthOf([...left.blocks.keys()].map(shortName));
  const rightWidth = widthOf([...right.blocks.keys()].map(shortName));
  const labelWidth = Math.round(widthOf(edges.map(({ label }) => label)) * SMALL) + 24;
  const x = { left: MARGIN, labels: MARGIN + leftWidth + WIRES, right: MARGIN + leftWidth + WIRES + labelWidth };
  const width = Math.round(x.right + rightWidth + MARGIN);
  const height = Math.max(left.height, right.height) + MARGIN;
  const parts = [
    ...drawColumn(left, x.left, leftWidth),
    ...drawColumn(right, x.right, rightWidth),
    ...[...incoming].flatMap(([to, some]) =>
      some.flatMap((edge, row) =>
        drawEdge(edge, left.blocks.get(edge.from), right.blocks.get(to), { row, x, leftWidth }),
      ),
    ),
  ];
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">`,
    `<title>traffic that policies allow or change</title><style>${STYLE}</style><rect class="g" width="${width}" height="${height}"/>`,
    ...parts,
    "</svg>",
    "",
  ].join("\n");
}

function columnOf(names: readonly string[], rowsOf: (name: string) => number): Column {
  const blocks = new Map<string, Block>();
  const headings: { text: string; y: number }[] = [];
  let y = MARGIN;
  for (const [box, members] of Map.groupBy(names, boxOf)) {
    headings.push({ text: box, y: y + HEAD - GAP });
    y += HEAD;
    for (const name of members) {
      const height = rowsOf(name) * ROW + 4;
      blocks.set(name, { name, y, height });
      y += height + GAP;
    }
  }
  return { blocks, headings, height: y };
}

function drawColumn({ blocks, headings }: Column, x: number, width: number): readonly string[] {
  return [
    ...headings.map(({ text, y }) => `<text class="b" x="${x}" y="${y}">${titled(text)}</text>`),
    ...[...blocks.values()].map(
      ({ name, y, height }) =>
        `<rect class="n" x="${x}" y="${y}" width="${Math.round(width)}" height="${height}" rx="5"/>` +
        `<text x="${x + 8}" y="${y + height / 2 + 4}">${titled(shortName(name))}</text>`,
    ),
  ];
}

interface Place {
  /** The arrow's place among those that end at the same block. */
  readonly row: number;
  readonly x: { readonly left: number; readonly labels: number; readonly right: number };
  readonly leftWidth: number;
}

function drawEdge(
  { label, isPartly }: Edge,
  from: Block | undefined,
  to: Block | undefined,
  { row, x, leftWidth }: Place,
): readonly string[] {
  if (from === undefined || to === undefined) return [];
  const [startX, startY] = [Math.round(x.left + leftWidth), from.y + from.height / 2];
  const [endX, endY] = [x.labels, to.y + 2 + row * ROW + ROW / 2];
  const middle = Math.round((startX + endX) / 2);
  const line = `M${startX} ${startY}C${middle} ${startY} ${middle} ${endY} ${endX} ${endY}H${x.right - 7}`;
  return [
    `<path class="e${isPartly ? " p" : ""}" d="${line}"/><path class="a" d="M${x.right} ${endY}l-8 -4v8z"/>` +
      `<text class="l" x="${endX}" y="${endY + 4}">${titled(label)}</text>`,
  ];
}

/** Returns a text, shortened where it is long; the title element then shows the whole. */
function titled(text: string): string {
  if (text.length <= MOST_LETTERS) return markupText(text);
  return `${markupText(`${text.slice(0, MOST_LETTERS - 1)}…`)}<title>${markupText(text)}</title>`;
}

function widthOf(texts: readonly string[]): number {
  const longest = Math.min(MOST_LETTERS, Math.max(0, ...texts.map(({ length }) => length)));
  return Math.max(SHORTEST, Math.round(longest * LETTER) + 24);
}

function boxOf(name: string): string {
  return name.split("/", 1)[0] ?? name;
}

function shortName(name: string): string {
  const slash = name.indexOf("/");
  return slash < 0 ? name : name.slice(slash + 1);
}

function compare(a: string, b: string): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

import { printable } from "../../objects/printable.ts";

/** An arrow between two things by their names. */
export interface Edge {
  readonly from: string;
  readonly to: string;
  readonly label: string;
  /** Whether it holds for only some members of the two. */
  readonly isPartly: boolean;
}

/** A directed graph. Names are grouped into boxes by the part before their first "/". */
export interface Graph {
  readonly names: readonly string[];
  readonly edges: readonly Edge[];
}

/** Nobody follows the arrows of a larger graph. */
const MOST_ARROWS = 40;

/** Returns a graph in Mermaid's language as a block of Markdown; empty for one that is empty or too large to follow. */
export function markdownGraph({ names, edges }: Graph): string {
  if (edges.length === 0 || edges.length > MOST_ARROWS) return "";
  const ids = new Map(names.map((name, i) => [name, `n${i}`]));
  const clusters = [...boxes(names)].map(([box, members], i) =>
    [
      `  subgraph box${i} [${mermaidText(box)}]`,
      ...members.map((name) => `    ${ids.get(name)}[${mermaidText(shortName(name))}]`),
      "  end",
    ].join("\n"),
  );
  const arrows = edges.map(
    ({ from, to, label, isPartly }) =>
      `  ${ids.get(from)} ${isPartly ? "-.->" : "-->"}|${mermaidText(label)}| ${ids.get(to)}`,
  );
  return ["\n```mermaid", "flowchart LR", ...clusters, ...arrows, "```\n"].join("\n");
}

function boxes(names: readonly string[]): ReadonlyMap<string, readonly string[]> {
  return Map.groupBy(names, (name) => name.split("/", 1)[0] ?? name);
}

function shortName(name: string): string {
  const slash = name.indexOf("/");
  return slash < 0 ? name : name.slice(slash + 1);
}

/** Returns a quoted text, in which a sign that could end the quotes, or be markup, is its number as an entity. */
function mermaidText(text: string): string {
  return `"${printable(text).replaceAll(/[^\w ./:,+*()-]/g, (sign) => `#${sign.codePointAt(0)};`)}"`;
}

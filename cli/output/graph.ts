import { joined, type Markdown, inMarkdown, type Mermaid, inMermaid, mermaidBlock, mermaidText } from "./markup.ts";

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
export function markdownGraph({ names, edges }: Graph): Markdown {
  if (edges.length === 0 || edges.length > MOST_ARROWS) return inMarkdown``;
  const ids = new Map(names.map((name, i) => [name, inMermaid`n${i}`]));
  const idOf = (name: string): Mermaid => ids.get(name) ?? inMermaid``;
  const clusters = [...boxes(names)].map(([box, members], i) =>
    joined(
      [
        inMermaid`  subgraph box${i} [${mermaidText(box)}]`,
        ...members.map((name) => inMermaid`    ${idOf(name)}[${mermaidText(shortName(name))}]`),
        inMermaid`  end`,
      ],
      "\n",
    ),
  );
  const arrows = edges.map(
    ({ from, to, label, isPartly }) =>
      inMermaid`  ${idOf(from)} ${isPartly ? inMermaid`-.->` : inMermaid`-->`}|${mermaidText(label)}| ${idOf(to)}`,
  );
  return mermaidBlock([inMermaid`flowchart LR`, ...clusters, ...arrows]);
}

function boxes(names: readonly string[]): ReadonlyMap<string, readonly string[]> {
  return Map.groupBy(names, (name) => name.split("/", 1)[0] ?? name);
}

function shortName(name: string): string {
  const slash = name.indexOf("/");
  return slash < 0 ? name : name.slice(slash + 1);
}

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

/** Formats a graph in Graphviz' language. */
export function formatDot({ names, edges }: Graph): string {
  const clusters = [...boxes(names)].map(([box, members], i) =>
    [
      `  subgraph cluster_${i} {`,
      `    label=${dotText(box)};`,
      ...members.map((name) => `    ${dotText(name)} [label=${dotText(shortName(name))}];`),
      "  }",
    ].join("\n"),
  );
  const arrows = edges.map(({ from, to, label, isPartly }) => {
    const style = isPartly ? ", style=dashed" : "";
    return `  ${dotText(from)} -> ${dotText(to)} [label=${dotText(label)}${style}];`;
  });
  return ["digraph policies {", "  rankdir=LR;", "  node [shape=box];", ...clusters, ...arrows, "}", ""].join("\n");
}

/** Formats a graph in Mermaid's language. */
export function formatMermaid({ names, edges }: Graph): string {
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
  return ["flowchart LR", ...clusters, ...arrows, ""].join("\n");
}

function boxes(names: readonly string[]): ReadonlyMap<string, readonly string[]> {
  return Map.groupBy(names, (name) => name.split("/", 1)[0] ?? name);
}

function shortName(name: string): string {
  const slash = name.indexOf("/");
  return slash < 0 ? name : name.slice(slash + 1);
}

function dotText(text: string): string {
  return `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

function mermaidText(text: string): string {
  return `"${text.replaceAll('"', "#quot;")}"`;
}

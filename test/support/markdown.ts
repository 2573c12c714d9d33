/** Of a heading: its place in the page's address, as GitHub makes it. */
function slugOf(heading: string): string {
  const words = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll(/[`*]/g, "");
  return words
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, "")
    .replaceAll(" ", "-");
}

/** Without what stands in blocks of code, where neither a link is one nor a heading. */
function prose(text: string): string {
  return text.replaceAll(/^( *)(```+).*\n(?:.*\n)*?\1\2`* *$/gm, "");
}

/** The anchors of a document: that of each heading, the second of equal ones with `-1`, and those given by `id`. */
export function anchorsOf(text: string): ReadonlySet<string> {
  const anchors = new Set<string>();
  const times = new Map<string, number>();
  for (const [, heading = ""] of prose(text).matchAll(/^#{1,6} +(.+?) *#*$/gm)) {
    const slug = slugOf(heading);
    const earlier = times.get(slug) ?? 0;
    times.set(slug, earlier + 1);
    anchors.add(earlier === 0 ? slug : `${slug}-${earlier}`);
  }
  return anchors;
}

/** Where the links and pictures of a document lead, as they stand there. */
export function linksOf(text: string): readonly string[] {
  const plain = prose(text).replaceAll(/`[^`\n]+`/g, "code");
  const inline = [...plain.matchAll(/\]\(\s*<?([^)\s>]+)>?[^)]*\)/g)];
  const defined = [...plain.matchAll(/^ {0,3}\[[^\]]+\]: *<?([^\s>]+)/gm)];
  return [...inline, ...defined].flatMap(([, target]) => target ?? []);
}

/** The cells of the table with these columns, row by row; empty where there is none. */
export function cellsBelow(text: string, columns: readonly string[]): readonly (readonly string[])[] {
  const lines = text.split("\n");
  const header = lines.findIndex((line) => line === `| ${columns.join(" | ")} |`);
  if (header === -1) return [];
  const body = lines.slice(header + 2);
  const end = body.findIndex((line) => !line.startsWith("|"));
  return body.slice(0, end === -1 ? undefined : end).map((line) =>
    line
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

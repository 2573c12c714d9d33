/** Returns the anchor that GitHub gives to a heading. */
function slugOf(heading: string): string {
  const words = heading.replace(/\[([^\]]*)\]\([^)]*\)/g, "$1").replaceAll(/[`*]/g, "");
  return words
    .trim()
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}\p{M}_ -]/gu, "")
    .replaceAll(" ", "-");
}

/** Returns a text without its blocks of code, in which links and headings do not count. */
function prose(text: string): string {
  return text.replaceAll(/^( *)(```+).*\n(?:.*\n)*?\1\2`* *$/gm, "");
}

/**
 * Returns the anchors of a document: one for each heading, with `-1` for the second of equal ones, and those given by
 * `id`.
 */
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

/** Returns the targets of the links and pictures of a document, as they are written. */
export function linksOf(text: string): readonly string[] {
  const plain = prose(text).replaceAll(/`[^`\n]+`/g, "code");
  const inline = [...plain.matchAll(/\]\(\s*<?([^)\s>]+)>?[^)]*\)/g)];
  const defined = [...plain.matchAll(/^ {0,3}\[[^\]]+\]: *<?([^\s>]+)/gm)];
  return [...inline, ...defined].flatMap(([, target]) => target ?? []);
}

/** Returns the cells of the table with these columns, row by row; none when there is no such table. */
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

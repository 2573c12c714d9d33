/** Names at a greater distance are not typing errors. */
const FARTHEST = 3;

/** Returns the known name that an unknown one most likely misspells; undefined where none is close. */
export function suggestionFor(unknown: string, known: readonly string[]): string | undefined {
  if (unknown.length > 64) return undefined;
  const ranked = known
    .map((name) => ({ name, distance: distance(unknown.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const [best] = ranked;
  return best !== undefined && best.distance <= Math.min(FARTHEST, best.name.length / 2) ? best.name : undefined;
}

/** Returns the number of characters to insert, delete or replace (Levenshtein). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, column) => column);
  for (let line = 0; line < a.length; line++) {
    const next = [line + 1];
    for (let column = 1; column <= b.length; column++) {
      const replaced = (row[column - 1] ?? 0) + (b[column - 1] === a[line] ? 0 : 1);
      next.push(Math.min(replaced, (row[column] ?? 0) + 1, (next[column - 1] ?? 0) + 1));
    }
    row = next;
  }
  return row[b.length] ?? 0;
}

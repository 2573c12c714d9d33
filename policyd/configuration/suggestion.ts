/** Names further off are rather other things than slips. */
const FARTHEST = 3;

/** The known name that an unknown one is most likely a slip of, undefined where none is near. */
export function suggestionFor(unknown: string, known: readonly string[]): string | undefined {
  if (unknown.length > 64) return undefined;
  const ranked = known
    .map((name) => ({ name, distance: distance(unknown.toLowerCase(), name.toLowerCase()) }))
    .sort((a, b) => a.distance - b.distance);
  const [best] = ranked;
  return best !== undefined && best.distance <= Math.min(FARTHEST, best.name.length / 2) ? best.name : undefined;
}

/** How many characters must be put in, taken out or replaced (Levenshtein). */
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

const MOST_SHOWN = 3;
/** Longer names are compared by their first characters: a typing error shows there, and the cost stays bounded. */
const LONGEST_COMPARED = 100;

/** Returns the existing names most like a wanted one in any case, the nearest first; none where all differ too much. */
export function nearestNames(wanted: string, names: Iterable<string>): readonly string[] {
  // A short name that shares no letter is not alike.
  const own = wanted.split("/").at(-1) ?? wanted;
  const lowered = wanted.toLowerCase();
  const most = Math.min(own.length - 1, Math.max(2, own.length / 3));
  const found: { readonly name: string; readonly distance: number }[] = [];
  for (const name of names) {
    const distance = isElsewhere(wanted, name) ? 0 : editDistance(lowered, name.toLowerCase());
    if (distance <= most) found.push({ name, distance });
  }
  found.sort((a, b) => a.distance - b.distance || (a.name < b.name ? -1 : 1));
  return found.slice(0, MOST_SHOWN).map(({ name }) => name);
}

/** Returns a question for the nearest names, or other words where none is near. */
export function nearestHint(wanted: string, names: Iterable<string>, otherwise: string): string {
  const nearest = nearestNames(wanted, names);
  return nearest.length === 0 ? otherwise : `did you mean ${nearest.join(" or ")}?`;
}

/** Returns whether a name is right but its namespace or kind is wrong, the most common mistake. */
function isElsewhere(wanted: string, name: string): boolean {
  const [asked, known] = [wanted.split("/"), name.split("/")];
  if (asked.at(-1) !== known.at(-1)) return false;
  if (asked.length !== known.length) return asked[0] === known[0];
  return asked.filter((part, i) => part !== known[i]).length === 1;
}

/** Returns the number of insertions, deletions, changes and swaps of neighbours (optimal string alignment). */
function editDistance(a: string, b: string): number {
  const [from, to] = [a.slice(0, LONGEST_COMPARED), b.slice(0, LONGEST_COMPARED)];
  let before: readonly number[] = [];
  let row: readonly number[] = Array.from({ length: to.length + 1 }, (_, i) => i);
  for (let i = 1; i <= from.length; i++) {
    const next = [i];
    for (let j = 1; j <= to.length; j++) {
      const changed = (row[j - 1] ?? 0) + (from[i - 1] === to[j - 1] ? 0 : 1);
      const isSwap = i > 1 && j > 1 && from[i - 1] === to[j - 2] && from[i - 2] === to[j - 1];
      const swapped = isSwap ? (before[j - 2] ?? 0) + 1 : Infinity;
      next.push(Math.min(changed, swapped, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1));
    }
    [before, row] = [row, next];
  }
  return row.at(-1) ?? 0;
}

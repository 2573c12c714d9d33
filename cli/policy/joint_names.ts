/**
 * Returns a function that names some of all ends or groups, where it can by one name for all of a larger unit: that of a
 * complete unit with several of them, or of a complete family of the outside.
 *
 * @param unitsOf the names of the larger units that contain one, the largest first
 */
export function jointNames<T extends { readonly name: string }>(
  all: Iterable<T>,
  unitsOf: (one: T) => readonly string[],
): (some: Iterable<T>) => readonly string[] {
  const sizesOf = (ones: Iterable<T>): ReadonlyMap<string, number> => {
    const sizes = new Map<string, number>();
    for (const one of ones) for (const unit of unitsOf(one)) sizes.set(unit, (sizes.get(unit) ?? 0) + 1);
    return sizes;
  };
  const existing = sizesOf(all);
  return (some) => {
    const present = sizesOf(some);
    const isWhole = (unit: string): boolean => {
      const size = present.get(unit) ?? 0;
      return size === existing.get(unit) && (size > 1 || unit.startsWith("outside "));
    };
    const parts = Map.groupBy(some, (one) => unitsOf(one).find(isWhole));
    return [...parts].flatMap(([unit, ones]) => unit ?? ones.map(({ name }) => name));
  };
}

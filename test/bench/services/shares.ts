/** What decides where a frontend's packets go: numbers that are drawn, and who has them. */
export interface Draw {
  /** Numbers are drawn below it. */
  readonly modulus: number;
  /** How often is drawn at most. */
  readonly draws: number;
  /** Who has each number that somebody has. */
  readonly holders: readonly string[];
  /** Who gets those that drew nobody to the end; undefined where every number is somebody's. */
  readonly rest: string | undefined;
}

/** Of all new connections the share of each endpoint, 0 to 1. */
export function sharesOf({ modulus, draws, holders, rest }: Draw): ReadonlyMap<string, number> {
  const miss = 1 - holders.length / modulus;
  const drawn = (1 - miss ** draws) / holders.length;
  const shares = new Map<string, number>();
  for (const holder of holders) shares.set(holder, (shares.get(holder) ?? 0) + drawn);
  if (rest !== undefined) shares.set(rest, (shares.get(rest) ?? 0) + miss ** draws);
  return shares;
}

/** How far the share that is farthest from the even one is from it, as a part of it. */
export function worstDeviation(shares: ReadonlyMap<string, number>): number {
  const even = 1 / shares.size;
  return Math.max(...[...shares.values()].map((share) => Math.abs(share - even) / even));
}

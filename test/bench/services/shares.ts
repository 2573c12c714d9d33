/** The parameters of a random choice of endpoint: the numbers that are drawn, and their holders. */
export interface Draw {
  /** The number below which is drawn. */
  readonly modulus: number;
  /** The largest number of draws. */
  readonly draws: number;
  /** The holder of each number that has one. */
  readonly holders: readonly string[];
  /** The endpoint for packets whose draws all found no holder; undefined where every number has one. */
  readonly rest: string | undefined;
}

/** Returns the share of each endpoint in all new connections, 0 to 1. */
export function sharesOf({ modulus, draws, holders, rest }: Draw): ReadonlyMap<string, number> {
  const miss = 1 - holders.length / modulus;
  const drawn = (1 - miss ** draws) / holders.length;
  const shares = new Map<string, number>();
  for (const holder of holders) shares.set(holder, (shares.get(holder) ?? 0) + drawn);
  if (rest !== undefined) shares.set(rest, (shares.get(rest) ?? 0) + miss ** draws);
  return shares;
}

/** Returns the largest deviation of a share from the even share, as a part of the latter. */
export function worstDeviation(shares: ReadonlyMap<string, number>): number {
  const even = 1 / shares.size;
  return Math.max(...[...shares.values()].map((share) => Math.abs(share - even) / even));
}

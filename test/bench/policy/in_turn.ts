/** Takes pairs of measurements, A/B then B/A and so on, each of which ends before the next begins. */
export async function inTurn<A, B>(
  count: number,
  ours: (round: number) => Promise<A> | A,
  peer: (round: number) => Promise<B> | B,
): Promise<readonly { readonly ours: A; readonly peer: B }[]> {
  const pairs: { readonly ours: A; readonly peer: B }[] = [];
  for (let round = 0; round < count; round++) {
    if (round % 2 === 0) {
      const first = await ours(round);
      pairs.push({ ours: first, peer: await peer(round) });
    } else {
      const first = await peer(round);
      pairs.push({ ours: await ours(round), peer: first });
    }
  }
  return pairs;
}

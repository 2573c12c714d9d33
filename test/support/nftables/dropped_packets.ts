/** Returns the number of packets that the rules with a comment have dropped, from nft's listing of a table or a chain. */
export function droppedPackets(listing: string, comment: string): number {
  const counters = listing.matchAll(new RegExp(`packets (\\d+) bytes \\d+ drop comment "${comment}"`, "g"));
  return [...counters].reduce((sum, [, packets]) => sum + Number(packets), 0);
}

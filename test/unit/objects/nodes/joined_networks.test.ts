import assert from "node:assert/strict";
import fc from "fast-check";
import { formatAddress } from "../../../../kernel/ip/address.ts";
import { parseCidr } from "../../../../kernel/ip/cidr.ts";
import { type AddressRange, joinedRanges } from "../../../../kernel/ip/ranges.ts";
import { JoinedNetworks } from "../../../../objects/nodes/joined_networks.ts";

const someCidr = fc
  .oneof(
    fc
      .tuple(fc.nat({ max: 15 }), fc.constantFrom(24, 25, 26, 28, 32))
      .map(([place, length]) => `10.0.0.${(place * 16) & ~(2 ** (32 - length) - 1) & 255}/${length}`),
    fc.nat({ max: 3 }).map((place) => `fd00:0:0:${place}::/64`),
    fc.constantFrom("0.0.0.0/0", "::/0", "255.255.255.255/32", "0.0.0.0/32", "::/128"),
  )
  .map((text) => parseCidr(text));

const someChange = fc.record({
  owner: fc.constantFrom("a", "b", "c", "d"),
  cidrs: fc.array(someCidr, { maxLength: 3 }),
  isReported: fc.boolean(),
});

function textOf({ first, last }: AddressRange): string {
  return `${formatAddress(first)}-${formatAddress(last)}`;
}

describe("objects/nodes/joined_networks", () => {
  it("for any changes of networks, the differences add up to the joined ranges of all networks", () => {
    fc.assert(
      fc.property(fc.array(someChange, { maxLength: 20 }), (changes) => {
        const networks = new JoinedNetworks();
        const owned = new Map<string, (typeof changes)[number]["cidrs"]>();
        const known = new Set<string>();
        for (const { owner, cidrs, isReported } of [...changes, { owner: "a", cidrs: [], isReported: true }]) {
          networks.set(owner, cidrs);
          owned.set(owner, cidrs);
          if (!isReported) continue;
          const { removed, added } = networks.difference();
          for (const range of removed) assert.ok(known.delete(textOf(range)), `${textOf(range)} was never added`);
          for (const range of added) assert.ok(known.size < known.add(textOf(range)).size, "added twice");
          const all = [...owned.values()].flat();
          const expected = [...joinedRanges(all, 4), ...joinedRanges(all, 6)].map(textOf);
          assert.deepEqual(known, new Set(expected));
        }
      }),
      { numRuns: 500 },
    );
  });
});

import assert from "node:assert/strict";
import fc from "fast-check";
import { assignRequested, candidates } from "../../../ipam/allocator.ts";
import type { RangeInput } from "../../../ipam/range.ts";
import { parseAddress, tryParseAddress } from "../../../kernel/ip/address.ts";
import { addresses, rangeSet, rangeSets, texts } from "../../support/ipam/address_store.ts";

describe("ipam/allocator: candidates", () => {
  it("I5: candidates go once around, from the beginning, the middle and the end", () => {
    const from = (last: string) => texts(candidates(rangeSet("192.168.1.0/29"), tryParseAddress(last)));
    const all = [2, 3, 4, 5, 6].map((n) => `192.168.1.${n}`);
    assert.deepEqual(from(""), all);
    assert.deepEqual(from("192.168.1.6"), all);
    assert.deepEqual(from("192.168.1.3"), [...all.slice(2), ...all.slice(0, 2)]);
    assert.deepEqual(from("192.168.1.1"), all, "the gateway as last reserved");
    assert.deepEqual(from("fd00::1"), all, "a last reserved of the other family");
  });

  it("POD-17: network and broadcast addresses are never candidates, even when the range begins and ends there", () => {
    const whole = { subnet: "10.0.0.0/29", rangeStart: "10.0.0.0", rangeEnd: "10.0.0.7", gateway: "10.0.0.6" };
    assert.deepEqual(
      texts(candidates(rangeSet(whole), undefined)),
      [1, 2, 3, 4, 5].map((n) => `10.0.0.${n}`),
    );
    const six = { subnet: "fd00::/126", rangeStart: "fd00::" };
    assert.deepEqual(texts(candidates(rangeSet(six), undefined)), ["fd00::2", "fd00::3"]);
  });

  it("candidates are right at both ends of the number space", () => {
    const top = rangeSet({ subnet: "255.255.255.252/30", rangeEnd: "255.255.255.255" });
    assert.deepEqual(texts(candidates(top, undefined)), ["255.255.255.254"]);
    const topSix = rangeSet("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126");
    const last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
    assert.deepEqual(texts(candidates(topSix, parseAddress(last))), [last.replace(/f$/, "e"), last]);
    const bottom = rangeSet({ subnet: "0.0.0.0/30", exclude: ["0.0.0.0/31"] });
    assert.deepEqual(texts(candidates(bottom, undefined)), ["0.0.0.2"]);
  });

  it("DS-04: an excluded /65 of a /64 is skipped at once", () => {
    const set = rangeSet({ subnet: "fd00::/64", exclude: ["fd00::/65"] });
    const [first] = candidates(set, undefined);
    assert.deepEqual(first, parseAddress("fd00::8000:0:0:0"));
    const [next] = candidates(set, parseAddress("fd00::5"));
    assert.deepEqual(next, parseAddress("fd00::8000:0:0:0"));
    const [around] = candidates(set, parseAddress("fd00::ffff:ffff:ffff:ffff"));
    assert.deepEqual(around, parseAddress("fd00::8000:0:0:0"));
  });
});

/** A /26 block with ends, gateway and exclusions given as last octets relative to the block. */
interface Block {
  readonly start: number;
  readonly end: number;
  readonly gateway: number;
  readonly singles: readonly number[];
  readonly prefix: { readonly at: number; readonly length: number } | undefined;
}

const block: fc.Arbitrary<Block> = fc
  .record({
    ends: fc.tuple(fc.nat(63), fc.nat(63)),
    gateway: fc.nat(63),
    singles: fc.array(fc.nat(63), { maxLength: 3 }),
    prefix: fc.option(fc.record({ at: fc.nat(63), length: fc.integer({ min: 26, max: 32 }) }), { nil: undefined }),
  })
  .map(({ ends: [a, b], ...rest }) => ({ ...rest, start: Math.min(a, b), end: Math.max(a, b) }));

/**
 * Returns an address of a block. The third octet distinguishes blocks; in IPv6 the same octets are the last two groups.
 */
function blockAddress(family: 4 | 6, index: number, octet: number): string {
  return family === 4
    ? `10.9.${index}.${octet}`
    : octet === 0
      ? `fd09:0:0:${index + 1}::`
      : `fd09:0:0:${index + 1}::${octet.toString(16)}`;
}

function inputOf(family: 4 | 6, { start, end, gateway, singles, prefix }: Block, index: number): RangeInput {
  const text = (octet: number) => blockAddress(family, index, octet);
  const offset = family === 4 ? 0 : 96;
  const exclude = singles.map(text);
  if (prefix !== undefined) {
    exclude.push(`${text(prefix.at - (prefix.at % 2 ** (32 - prefix.length)))}/${prefix.length + offset}`);
  }
  return {
    subnet: `${text(0)}/${26 + offset}`,
    rangeStart: text(start),
    rangeEnd: text(end),
    gateway: text(gateway),
    exclude,
  };
}

/** Computes the candidates naively: checks every octet against every rule, then rotates the list. */
function naiveCandidates(family: 4 | 6, blocks: readonly Block[], last: string | undefined): readonly string[] {
  const all: { readonly text: string; readonly allowed: boolean }[] = [];
  for (const [index, { start, end, gateway, singles, prefix }] of blocks.entries()) {
    for (let octet = start; octet <= end; octet++) {
      const size = prefix === undefined ? 1 : 2 ** (32 - prefix.length);
      const excluded = prefix !== undefined && Math.floor(octet / size) === Math.floor(prefix.at / size);
      const reserved = octet === 0 || octet === gateway || (family === 4 && octet === 63);
      all.push({
        text: blockAddress(family, index, octet),
        allowed: !reserved && !excluded && !singles.includes(octet),
      });
    }
  }
  const cut = all.findIndex(({ text }) => text === last) + 1;
  return [...all.slice(cut), ...all.slice(0, cut)].filter(({ allowed }) => allowed).map(({ text }) => text);
}

describe("ipam/allocator: properties", () => {
  it("I5: candidates agree with a naive model in order and content, each address exactly once", () => {
    fc.assert(
      fc.property(
        fc.constantFrom<4 | 6>(4, 6),
        fc.array(block, { minLength: 1, maxLength: 3 }),
        fc.option(fc.tuple(fc.nat(3), fc.nat(63)), { nil: undefined }),
        (family, blocks, at) => {
          const last = at === undefined ? undefined : blockAddress(family, at[0], at[1]);
          const set = rangeSet(...blocks.map((one, index) => inputOf(family, one, index)));
          const offered = texts(candidates(set, last === undefined ? undefined : parseAddress(last)));
          assert.deepEqual(offered, naiveCandidates(family, blocks, last));
          assert.equal(new Set(offered).size, offered.length);
        },
      ),
      { numRuns: 1000 },
    );
  });
});

describe("ipam/allocator: requested addresses", () => {
  const sets = rangeSets(
    [{ subnet: "10.1.2.0/24", exclude: ["10.1.2.32/27"] }, "10.1.3.0/24"],
    ["2001:db8:1::/64"],
    [{ subnet: "10.4.0.0/29", rangeStart: "10.4.0.0", rangeEnd: "10.4.0.7" }],
  );
  const assign = (...requested: readonly string[]) => assignRequested(sets, addresses(...requested));
  const refused = (message: string, ...requested: readonly string[]) =>
    assert.throws(() => assign(...requested), { code: "ERR_ADDRESS_UNAVAILABLE", message });

  it("I6: an address that no remaining set can serve is refused with host-local's words", () => {
    refused("failed to allocate all requested IPs: 192.0.2.1", "192.0.2.1", "10.1.2.9");
    refused("failed to allocate all requested IPs: 10.1.3.9", "10.1.2.9", "10.1.3.9");
    refused("failed to allocate all requested IPs: 10.1.2.255 fe80::1", "10.1.2.255", "fe80::1");
  });

  it("I6: requested gateway, network, broadcast and excluded addresses are refused", () => {
    refused("failed to allocate for range 0: requested ip 10.1.2.1 is subnet's gateway", "10.1.2.1");
    refused("failed to allocate for range 2: requested ip 10.4.0.0 is the network address of 10.4.0.0/29", "10.4.0.0");
    refused(
      "failed to allocate for range 2: requested ip 10.4.0.7 is the broadcast address of 10.4.0.0/29",
      "10.4.0.7",
    );
    refused("failed to allocate for range 0: requested ip 10.1.2.40 is excluded by 10.1.2.32/27", "10.1.2.40");
  });
});

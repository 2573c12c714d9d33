import assert from "node:assert/strict";
import { canonicalRange, canonicalRangeSets, formatRangeSet, type RangeInput } from "../../../ipam/range.ts";
import { formatAddress } from "../../../kernel/ip/address.ts";
import { formatCidr } from "../../../kernel/ip/cidr.ts";
import { rangeSets } from "../../support/ipam/address_store.ts";

function shown(input: RangeInput) {
  const range = canonicalRange(input, "ipam");
  return {
    subnet: formatCidr(range.subnet),
    rangeStart: formatAddress(range.rangeStart),
    rangeEnd: formatAddress(range.rangeEnd),
    gateway: formatAddress(range.gateway),
    exclude: range.exclude.map(formatCidr),
  };
}

function refusal(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    assert.ok(error instanceof Error && "code" in error, String(error));
    assert.equal(error.code, "ERR_CONFIGURATION");
    return error.message;
  }
  return assert.fail("it was accepted");
}

describe("ipam/range: one range", () => {
  it("I7: defaults are host-local's, for IPv4 without the broadcast address", () => {
    assert.deepEqual(shown({ subnet: "192.0.2.0/24" }), {
      subnet: "192.0.2.0/24",
      rangeStart: "192.0.2.1",
      rangeEnd: "192.0.2.254",
      gateway: "192.0.2.1",
      exclude: [],
    });
    assert.equal(shown({ subnet: "192.0.2.0/25" }).rangeEnd, "192.0.2.126");
    assert.equal(shown({ subnet: "192.0.2.4/30" }).rangeEnd, "192.0.2.6");
    assert.equal(shown({ subnet: "0.0.0.0/0" }).rangeEnd, "255.255.255.254");
    assert.deepEqual(shown({ subnet: "2001:DB8:1::/64" }), {
      subnet: "2001:db8:1::/64",
      rangeStart: "2001:db8:1::1",
      rangeEnd: "2001:db8:1:0:ffff:ffff:ffff:ffff",
      gateway: "2001:db8:1::1",
      exclude: [],
    });
  });

  it("I7: given values are kept, an empty text counts as absent, and a gateway may lie elsewhere", () => {
    const input = {
      subnet: "192.0.2.0/24",
      rangeStart: "192.0.2.40",
      rangeEnd: "192.0.2.50",
      gateway: "198.51.100.1",
      exclude: ["192.0.2.44", "192.0.2.48/31"],
    };
    assert.deepEqual(shown(input), { ...input, exclude: ["192.0.2.44/32", "192.0.2.48/31"] });
    assert.deepEqual(
      shown({ subnet: "192.0.2.0/24", rangeStart: "", rangeEnd: "", gateway: "" }),
      shown({ subnet: "192.0.2.0/24" }),
    );
  });

  const refused: readonly (readonly [string, RangeInput, string, string])[] = [
    ["/31", { subnet: "192.0.2.0/31" }, "ipam.subnet", "Network 192.0.2.0/31 too small to allocate from"],
    ["/127", { subnet: "fd00::/127" }, "ipam.subnet", "too small to allocate from"],
    [
      "host bits",
      { subnet: "192.0.2.12/24" },
      "ipam.subnet",
      "For a subnet mask of length 24 the network address is 192.0.2.0",
    ],
    ["no prefix", { subnet: "192.0.2.0" }, "ipam.subnet", "is not a prefix"],
    ["an IPv4-mapped subnet", { subnet: "::ffff:10.0.0.0/120" }, "ipam.subnet", "IPv4-mapped"],
    ["a subnet around the IPv4-mapped ones", { subnet: "::/64" }, "ipam.subnet", "IPv4-mapped"],
    [
      "a start outside",
      { subnet: "192.0.2.0/24", rangeStart: "192.0.3.0" },
      "ipam.rangeStart",
      "RangeStart 192.0.3.0 not in network 192.0.2.0/24",
    ],
    [
      "an end outside",
      { subnet: "192.0.2.0/24", rangeEnd: "192.0.4.0" },
      "ipam.rangeEnd",
      "RangeEnd 192.0.4.0 not in network 192.0.2.0/24",
    ],
    [
      "a start after the end",
      { subnet: "192.0.2.0/24", rangeStart: "192.0.2.50", rangeEnd: "192.0.2.40" },
      "ipam.rangeStart",
      "RangeStart 192.0.2.50 is after RangeEnd 192.0.2.40",
    ],
    ["a start of the other family", { subnet: "192.0.2.0/24", rangeStart: "fd00::5" }, "ipam.rangeStart", "not in"],
    ["a gateway of the other family", { subnet: "192.0.2.0/24", gateway: "fd00::1" }, "ipam.gateway", "family"],
    ["an invalid gateway", { subnet: "192.0.2.0/24", gateway: "192.0.2.01" }, "ipam.gateway", '"192.0.2.01"'],
    [
      "an exclusion elsewhere",
      { subnet: "192.0.2.0/24", exclude: ["192.0.2.9", "192.0.3.9"] },
      "ipam.exclude[1]",
      "192.0.3.9/32 not in network 192.0.2.0/24",
    ],
    [
      "an exclusion with host bits",
      { subnet: "192.0.2.0/24", exclude: ["192.0.2.9/30"] },
      "ipam.exclude[0]",
      "192.0.2.8/30",
    ],
    ["an invalid exclusion", { subnet: "192.0.2.0/24", exclude: ["nine"] }, "ipam.exclude[0]", '"nine"'],
  ];
  for (const [name, input, field, words] of refused) {
    it(`I7: a range with ${name} is refused with the field`, () => {
      const message = refusal(() => canonicalRange(input, "ipam"));
      assert.ok(message.startsWith(`${field}: `), message);
      assert.ok(message.includes(words), message);
      assert.ok(message.includes("expected"), message);
    });
  }
});

describe("ipam/range: range sets", () => {
  const message = (...sets: readonly (readonly RangeInput[])[]) =>
    refusal(() => canonicalRangeSets(sets, "ipam.ranges"));

  it("I7: an overlap inside a set or between sets is refused", () => {
    assert.match(
      message([{ subnet: "192.168.0.0/20" }, { subnet: "192.168.2.0/24" }]),
      /^ipam\.ranges\[0\]\[1\]\.subnet: subnets 192\.168\.0\.1-192\.168\.15\.254 and 192\.168\.2\.1-192\.168\.2\.254 overlap/,
    );
    assert.match(
      message([{ subnet: "192.168.2.0/24" }], [{ subnet: "fd00::/64" }], [{ subnet: "192.168.0.0/20" }]),
      /^ipam\.ranges\[2\]: range set 0 overlaps with 2 /,
    );
    const [from, to] = [{ rangeEnd: "10.0.0.127" }, { rangeStart: "10.0.0.127" }];
    assert.match(
      message([
        { subnet: "10.0.0.0/24", ...from },
        { subnet: "10.0.0.0/24", ...to },
      ]),
      /overlap/,
    );
  });

  it("I7: disjoint parts of one subnet, and equal bits of two families, are accepted", () => {
    const [set] = rangeSets([
      { subnet: "10.0.0.0/24", rangeEnd: "10.0.0.127" },
      { subnet: "10.0.0.0/24", rangeStart: "10.0.0.128" },
    ]);
    assert.equal(set && formatRangeSet(set), "10.0.0.1-10.0.0.127,10.0.0.128-10.0.0.254");
    assert.equal(rangeSets(["0.0.0.0/24"], ["1::/24"]).length, 2);
  });
});

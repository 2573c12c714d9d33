import assert from "node:assert/strict";
import { type Address, addressPlus, formatAddress } from "../../../kernel/ip/address.ts";
import { type Cidr, cidrContains, formatCidr, lastAddress, networkAddress } from "../../../kernel/ip/cidr.ts";
import { bothFamilies, BROADCAST, LINK_LOCAL, LOOPBACK, MULTICAST, UNSPECIFIED } from "../../../kernel/ip/special.ts";
import { specialClass } from "../../../objects/semantics/services/address_class.ts";

const PREFIXES: readonly (readonly [string, readonly Cidr[]])[] = [
  ["loopback", bothFamilies(LOOPBACK)],
  ["link-local", bothFamilies(LINK_LOCAL)],
  ["multicast", bothFamilies(MULTICAST)],
  ["unspecified", bothFamilies(UNSPECIFIED)],
  ["broadcast", [BROADCAST]],
];

function classByPrefixes(address: Address): string | undefined {
  return PREFIXES.find(([, cidrs]) => cidrs.some((cidr) => cidrContains(cidr, address)))?.[0];
}

describe("kernel/ip/special: the special addresses of RFC 6890", () => {
  it("bothFamilies returns the networks of IPv4 and of IPv6", () => {
    assert.deepEqual(bothFamilies(LOOPBACK, MULTICAST), [LOOPBACK[4], LOOPBACK[6], MULTICAST[4], MULTICAST[6]]);
  });

  for (const [name, cidrs] of PREFIXES) {
    for (const cidr of cidrs) {
      it(`${formatCidr(cidr)} ends where ipaddr.js ends ${name} addresses`, () => {
        const [first, last] = [networkAddress(cidr), lastAddress(cidr)];
        const around = [addressPlus(first, -1n), first, last, addressPlus(last, 1n)];
        for (const address of around) {
          if (address !== undefined)
            assert.equal(specialClass(address), classByPrefixes(address), formatAddress(address));
        }
        assert.deepEqual([specialClass(first), specialClass(last)], [name, name]);
      });
    }
  }
});

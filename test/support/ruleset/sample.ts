import { type Address, addressFromValue } from "../../../kernel/ip/address.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import type { Table } from "../../../kernel/nftables/model/object.ts";
import { counter, drop, inSet, rule } from "../../../kernel/nftables/model/statement.ts";
import type { DesiredElement } from "../../../policyd/ruleset/desired/desired_element.ts";
import { withVersion } from "../../../policyd/ruleset/schema.ts";

/** Two tables with a set, a map, an interval set, a verdict map and a set that rules write. */
export function sampleTables(
  options: { readonly isOwned?: boolean; readonly revision?: number } = {},
): readonly Table[] {
  const owned = options.isOwned === true ? { isOwned: true } : {};
  return [
    withVersion({
      family: "inet",
      name: "drawbridge",
      ...owned,
      sets: [
        { name: "frontends", key: ["ipv4_addr", "inet_service"] },
        { name: "endpoints", key: ["ipv4_addr", "inet_service"], data: ["ipv4_addr", "inet_service"] },
        { name: "ranges", key: ["ipv4_addr"], isInterval: true },
        { name: "affinity", key: ["ipv4_addr"], isDynamic: true, timeout: 600_000, size: 1000 },
      ],
      chains: [
        {
          name: "forward",
          base: { type: "filter", hook: "forward", priority: -10 + (options.revision ?? 0), policy: "accept" },
          rules: [
            rule(inSet(concatenation("ip daddr", "tcp dport"), "frontends"), counter, drop),
            rule({ kind: "dynamic", operation: "update", set: "affinity", key: "ip saddr" }),
          ],
        },
      ],
    }),
    withVersion({
      family: "bridge",
      name: "drawbridge",
      ...owned,
      sets: [{ name: "sources", key: ["ifname", "ipv4_addr"] }],
      chains: [
        {
          name: "prerouting",
          base: { type: "filter", hook: "prerouting", priority: -300, policy: "accept" },
          rules: [rule(counter)],
        },
      ],
    }),
  ];
}

const inet = { family: "inet", name: "drawbridge" } as const;
const bridge = { family: "bridge", name: "drawbridge" } as const;

/** Returns an address of 10.0.0.0/8 by its number. */
export function sampleAddress(number: number): Address {
  const address = addressFromValue(4, BigInt(0x0a000000 + number));
  if (address === undefined) throw new Error(`no address ${number}`);
  return address;
}

/** Returns the claims of a sample owner: one element in each kind of set, with a value that can differ. */
export function sampleClaims(number: number, value: number): readonly DesiredElement[] {
  const address = sampleAddress(number);
  return [
    { table: inet, set: "frontends", element: { key: [address, 80] } },
    { table: inet, set: "endpoints", element: { key: [address, 80], data: [sampleAddress(value), 8080] } },
    {
      table: inet,
      set: "ranges",
      element: { key: [{ first: sampleAddress(0x100000 + 4 * number), last: sampleAddress(0x100001 + 4 * number) }] },
    },
    { table: bridge, set: "sources", element: { key: [`dbv${number}`, address] } },
  ];
}

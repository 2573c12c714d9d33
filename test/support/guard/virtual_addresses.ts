import { type Address, formatAddress, parseAddress, FAMILIES } from "../../../kernel/ip/address.ts";
import type { GuardedNode } from "./guarded_node.ts";

/** The port of most responders, with a virtual address or without. */
export const PORT = 8080;

/** Addresses that stand for Services: of the victim, and of the attacker itself. */
export const VIRTUAL = {
  other: { 4: parseAddress("10.96.0.1"), 6: parseAddress("fd00:96::1") },
  self: { 4: parseAddress("10.96.0.2"), 6: parseAddress("fd00:96::2") },
} as const;

/** Loads rules as they exist for Services, in a table of the test's own. */
export function loadVirtualAddresses({ wired, attacker, victim }: GuardedNode): void {
  const rules = FAMILIES.flatMap((family) => {
    const ip = family === 4 ? "ip" : "ip6";
    const text = (pod: typeof victim): string => formatAddress(pod.addresses[family]);
    const translation = (virtual: Address, pod: typeof victim): string =>
      `add rule inet services nat_pre ${ip} daddr ${formatAddress(virtual)} dnat ${ip} to ${text(pod)}`;
    return [
      translation(VIRTUAL.other[family], victim),
      translation(VIRTUAL.self[family], attacker),
      `add rule inet services nat_post ct status dnat ${ip} saddr ${text(attacker)} ${ip} daddr ${text(attacker)} masquerade`,
    ];
  });
  const chains = [
    "table inet services {",
    "  chain nat_pre { type nat hook prerouting priority -100; }",
    "  chain nat_post { type nat hook postrouting priority 100; }",
    "}",
  ];
  wired.node.exec("nft", ["-f", "-"], [...chains, ...rules, ""].join("\n"));
}

import type { MacAddress } from "../../kernel/ip/mac.ts";
import { concatenation } from "../../kernel/nftables/model/expression.ts";
import type { SetDefinition } from "../../kernel/nftables/model/object.ts";
import { counter, drop, inSet, not, type Rule, rule } from "../../kernel/nftables/model/statement.ts";
import type { SetElements } from "./set_elements.ts";

const checked: SetDefinition = { name: "checked", key: ["ifname"] };
const senders: SetDefinition = { name: "senders", key: ["ifname", "ether_addr"] };

/** The sets that the rules of this file use. */
export const macCheckSets: readonly SetDefinition[] = [checked, senders];

/** Rules for prerouting, before the bridge learns addresses: a pod's port accepts only its pod's MAC address. */
export const macCheckRules: readonly Rule[] = [
  rule(
    inSet("iifname", checked.name),
    not(inSet(concatenation("iifname", "ether saddr"), senders.name)),
    counter,
    drop,
  ),
];

/** Returns the elements that restrict a port to one MAC address. @param comment of each element: its owner */
export function macCheckElements(port: string, mac: MacAddress, comment: string): readonly SetElements[] {
  return [
    { set: checked, elements: [{ key: [port], comment }] },
    { set: senders, elements: [{ key: [port, mac], comment }] },
  ];
}

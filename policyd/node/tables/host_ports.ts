import {
  hairpinRules,
  hostPortChains,
  hostPortOutputRules,
  hostPortRules,
  hostPortSets,
} from "../../../cni/node_rules/host_ports.ts";
import {
  hideLocalhost,
  localhostAnswerChains,
  localhostOutput,
  showLocalhost,
} from "../../../cni/node_rules/localhost_ports.ts";
import type { Chain } from "../../../kernel/nftables/model/object.ts";
import { anyFlag, rule } from "../../../kernel/nftables/model/statement.ts";
import type { TablePart } from "../../ruleset/table_part.ts";

/**
 * Returns the part of the inet table that publishes pods' ports, by the plugin's own rules. Maps hold the target of
 * each node address and port, so a hundred pods need as many rules as none. {@link hostPortHooks} lead to these chains.
 */
export function hostPorts(): TablePart {
  return { sets: hostPortSets, chains: [...hostPortChains, ...localhostAnswerChains] };
}

/**
 * The hooks of host ports, which exist while a pod of the node has one.
 *
 * Destinations change at -99, after those of Services and before the rules of marks.ts check what was translated;
 * sources change at 99, before marks are cleared. Replies to clients on localhost are readdressed at -89, after that
 * mark, and at 110, after policies.
 */
export const hostPortHooks: readonly Chain[] = [
  {
    name: "published_prerouting",
    base: { type: "nat", hook: "prerouting", priority: -99, policy: "accept" },
    rules: hostPortRules,
  },
  {
    name: "localhost_prerouting",
    base: { type: "filter", hook: "prerouting", priority: -89, policy: "accept" },
    rules: [rule(anyFlag("ct status", "snat"), hideLocalhost)],
  },
  {
    name: "localhost_input",
    base: { type: "filter", hook: "input", priority: 110, policy: "accept" },
    rules: [showLocalhost],
  },
  { name: "localhost_output", ...localhostOutput },
  {
    name: "published_output",
    base: { type: "nat", hook: "output", priority: -99, policy: "accept" },
    rules: hostPortOutputRules,
  },
  {
    name: "published_postrouting",
    base: { type: "nat", hook: "postrouting", priority: 99, policy: "accept" },
    rules: hairpinRules,
  },
];

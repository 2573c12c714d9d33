import {
  hairpinRules,
  hostPortChains,
  hostPortOutputRules,
  hostPortRules,
  hostPortSets,
} from "../../cni/host_ports.ts";
import { localhostOutput } from "../../cni/localhost_ports.ts";
import type { TablePart } from "./table_part.ts";

/**
 * The part of the inet table that publishes pods' ports, by the plugin's own rules: what a packet to an address of the
 * node leads to stands in maps, so there are as many rules for a hundred pods as for none.
 *
 * Answers to clients on localhost are readdressed by rules of {@link marks}, which look at translated packets anyway.
 *
 * At -100 destinations change before {@link marks} looks at what was translated, at 100 sources do before marks go.
 */
export function hostPorts(): TablePart {
  return {
    sets: hostPortSets,
    chains: [
      ...hostPortChains,
      {
        name: "host_ports_prerouting",
        base: { type: "nat", hook: "prerouting", priority: -100, policy: "accept" },
        rules: hostPortRules,
      },
      {
        name: "host_ports_output",
        base: { type: "nat", hook: "output", priority: -100, policy: "accept" },
        rules: hostPortOutputRules,
      },
      { name: "localhost_output", ...localhostOutput },
      {
        name: "host_ports_postrouting",
        base: { type: "nat", hook: "postrouting", priority: 100, policy: "accept" },
        rules: hairpinRules,
      },
    ],
  };
}

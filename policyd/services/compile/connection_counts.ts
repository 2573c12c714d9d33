import type { SetDefinition } from "../../../kernel/nftables/object.ts";
import { concatenation } from "../../../kernel/nftables/expression.ts";
import { anyFlag, hasBits, jumpTo, returnToCaller, rule } from "../../../kernel/nftables/statement.ts";
import type { TablePart } from "../../node/table_part.ts";
import { admit } from "./affinity_part.ts";
import type { RuleFamily } from "./frontend_space.ts";
import { FAMILIES, words } from "./frontend_space.ts";
import { DURATION_BITS, OURS } from "./priority_number.ts";

/** So many endpoints of ports are counted at once, per family; connections to further ones are not. */
const MOST_COUNTED = 262_144;
/** An endpoint that got no connection for so long begins at 0. */
const KEPT_MILLISECONDS = 86_400_000;
const COLLECTION_MILLISECONDS = 3_600_000;

/** The set of those that got connections, each with their number; rules write it. */
export function connectionSet(family: RuleFamily): string {
  return `connections${family}`;
}

/**
 * What is done when a connection has got its endpoint, in the hooks behind NAT: it is counted, and where clients stay with
 * their endpoints it is remembered.
 *
 * An endpoint is counted under the number of its Service's port, or where a client stayed with it under its own number; so
 * its count is the same whatever its elements in the maps of endpoints are, and these need none: a counter takes the
 * kernel twice as long as the element it is in.
 *
 * The scratch register between rules is the packet's priority, of a connection's first packet alone. The kernel sets it
 * anew for IPv4 when it forwards, and otherwise it is a socket's own wish: it counts only in queueing that one packet.
 */
export function connectionCounts(): TablePart {
  const toChosen = rule(hasBits("meta priority", OURS, OURS), anyFlag("ct state", "new"), jumpTo("chosen"));
  return {
    sets: FAMILIES.map((family): SetDefinition => ({
      name: connectionSet(family),
      key: ["classid", words[family].type, "inet_service"],
      timeout: "per element",
      collectionInterval: COLLECTION_MILLISECONDS,
      isDynamic: true,
      size: MOST_COUNTED,
      hasCounters: true,
    })),
    chains: [
      {
        name: "chosen",
        rules: [
          ...FAMILIES.map((family) =>
            rule(anyFlag("ct status", "dnat"), {
              kind: "dynamic",
              operation: "update",
              set: connectionSet(family),
              key: concatenation("meta priority", words[family].destination, "th dport"),
              timeout: KEPT_MILLISECONDS,
            }),
          ),
          rule(hasBits("meta priority", DURATION_BITS, 0), { kind: "clear priority" }, returnToCaller),
          rule(anyFlag("ct status", "dnat"), admit),
          rule({ kind: "clear priority" }),
        ],
      },
    ],
    shared: { after_nat_prerouting: [toChosen] },
    sharedForNew: { filter_output: [toChosen] },
  };
}

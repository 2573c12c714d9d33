import { FAMILIES, type Family } from "../../../kernel/ip/address.ts";
import type { SetDefinition } from "../../../kernel/nftables/model/object.ts";
import { concatenation } from "../../../kernel/nftables/model/expression.ts";
import { anyFlag, hasBits, jumpTo, returnToCaller, rule } from "../../../kernel/nftables/model/statement.ts";
import type { TablePart } from "../../ruleset/table_part.ts";
import { admit } from "./affinity_part.ts";
import { words } from "./frontend_kind.ts";
import { DURATION_BITS, OURS } from "./priority_number.ts";

/** The most endpoints of ports that are counted at once, per family; connections to further ones are not counted. */
const MOST_COUNTED = 262_144;
/** The count of an endpoint that got no connection for this long begins at 0 again. */
const KEPT_MILLISECONDS = 86_400_000;
const COLLECTION_MILLISECONDS = 3_600_000;

/**
 * Returns the name of the set of endpoints that got connections, each with the number it is counted under; rules write
 * it.
 */
export function connectionSet(family: Family): string {
  return `connections${family}`;
}

/**
 * Returns the rules for a connection that has got its endpoint, in the hooks after NAT: they count it, and remember the
 * endpoint if clients stay with it.
 *
 * An endpoint is counted under the number of its Service's port, or under its own number if a client stayed with it. So
 * its count does not depend on its elements in the maps of endpoints, and those need no counters, which cost the kernel
 * twice the time of the elements themselves.
 *
 * The rules pass data on in the priority of a connection's first packet. The kernel sets it again for IPv4 when it
 * forwards; otherwise it is a value that a socket chose, and only affects how that one packet is queued.
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

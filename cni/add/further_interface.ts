import type { NetlinkSocket, Reply } from "../../kernel/netlink/socket.ts";
import { newRoute } from "../../kernel/route/route.ts";
import { newSourceRule } from "../../kernel/route/rule.ts";
import { defaultRoute } from "../result.ts";
import { routeSpec, type Step, type Wiring } from "../wiring/wiring.ts";

/** Above the tables that the plugin `sbr` takes, from 100 on. */
const FIRST_TABLE = 107_000;

/**
 * Lets a pod send from the addresses of a further interface, one whose default route gave way to another's, by that
 * interface: its answers, too, which the guard would drop elsewhere. Without rules (CONFIG_IP_MULTIPLE_TABLES) the pod
 * answers by its first interface.
 *
 * @param steps those of the pod, with their replies
 * @param index the index of the interface in the pod
 */
export function sendByFurther(
  socket: NetlinkSocket,
  { addresses, gateways }: Wiring,
  index: number,
  { steps, replies }: { readonly steps: readonly Step[]; readonly replies: readonly Reply[] },
): void {
  if (!steps.some(({ isDefault }, i) => isDefault === true && replies[i]?.error !== undefined)) return;
  const table = FIRST_TABLE + index;
  const requests = addresses.flatMap((address, i) => {
    const gateway = gateways[i];
    if (gateway === undefined) return [];
    const route = { ...defaultRoute(gateway), gateway, isImplicit: true, table };
    return [newRoute(routeSpec(route, index)), newSourceRule(address, table)];
  });
  socket.batch(requests);
}

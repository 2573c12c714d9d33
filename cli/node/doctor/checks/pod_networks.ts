import { type Cidr, formatCidr } from "../../../../kernel/ip/cidr.ts";
import { type FoundRoute, MAIN_TABLE, type Route } from "../../../../kernel/route/route.ts";
import { isOurs } from "../../../../policyd/routes/own_routes.ts";
import {
  addressConflicts,
  obstaclesOf,
  obstacleWords,
  ownObstacles,
  peerObstacles,
} from "../../../../policyd/routes/obstacles.ts";
import { seen, type Remark } from "../../../../policyd/problems/check.ts";
import type { NodeFacts, Check } from "../facts.ts";

const BRIDGE = "bridge";

export const podNetworks: Check = {
  id: "pod-networks",
  summary: "No other network or route of this node is in the way of pods' CIDRs, its own and those of other nodes.",
  needs: ["network", "links", "addresses", "routes", "discarding"],
  examine: (facts) => [...conflicts(facts), ...obstacles(facts)],
};

/** Reports addresses of other links within the pod CIDR. The check `former-plugin` reports those of bridges. */
function conflicts(facts: NodeFacts): readonly Remark[] {
  const links = (seen(facts.links) ?? []).map(({ index, name, kind }) => ({ index, name, isBridge: kind === BRIDGE }));
  return addressConflicts(podCidrs(facts), links, seen(facts.addresses) ?? []).map(({ cidr, words, look }) => ({
    severity: "error",
    what: `the pod CIDR ${formatCidr(cidr)} overlaps with ${words}`,
    why: "packets for one of the two go to the other",
    way: `give the cluster another pod CIDR (--cluster-cidr), or take the address away: ${look}`,
  }));
}

/** Reports routes in this node's pod CIDRs, and in those of other nodes, as our routes to these show. */
function obstacles(facts: NodeFacts): readonly Remark[] {
  const routes = (seen(facts.routes) ?? []).filter(({ table }) => table === MAIN_TABLE);
  const placed = obstaclesOf([
    ...routes.map((route) => ({ route, discards: false })),
    ...(seen(facts.discarding) ?? []).map((route) => ({ route, discards: true })),
  ]);
  const bridge = (seen(facts.links) ?? []).find(({ name }) => name === facts.place.bridge)?.index;
  const own = podCidrs(facts).flatMap((cidr) =>
    ownObstacles(placed, cidr, bridge).map((found) => obstacle("this node", cidr, found)),
  );
  const others = routes.filter(isOurs).flatMap((route) => {
    const { destination } = route;
    if (destination === undefined) return [];
    const isOnWay = (other: Route): boolean =>
      other.gateway === route.gateway && other.outputInterface === route.outputInterface;
    return peerObstacles(placed, destination, isOnWay).map((found) => obstacle("another node", destination, found));
  });
  return [...own, ...others];
}

function obstacle(whose: string, cidr: Cidr, found: FoundRoute): Remark {
  return {
    severity: "error",
    what: `another program's route to ${obstacleWords(found)} is within the pod CIDR ${formatCidr(cidr)} of ${whose}`,
    why: "it is longer than the route to all of these pods, so that the kernel takes it: what is sent to them is lost",
    way: `delete it where it is left of another add-on: ip route show root ${formatCidr(cidr)}`,
  };
}

/** Returns the prefixes from which pods get their addresses, from our network configuration. */
export function podCidrs({ network }: NodeFacts): readonly Cidr[] {
  const file = seen(network);
  return file?.kind === "network" ? file.ranges.flat().map(({ subnet }) => subnet) : [];
}

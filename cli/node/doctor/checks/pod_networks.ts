import { type Cidr, cidrContains, formatCidr } from "../../../../kernel/ip/cidr.ts";
import { bitsOf } from "../../../../kernel/ip/address.ts";
import { type FoundRoute, MAIN_TABLE, type Route, ROUTE_PROTOCOL } from "../../../../kernel/route/route.ts";
import { doOverlap } from "../../../../objects/nodes/node_claims.ts";
import { isOurs } from "../../../../policyd/routes/own_routes.ts";
import { TUNNEL } from "../../../../policyd/routes/tunnel.ts";
import { obstacleWords, ownObstacles, peerObstacles, RouteContainment } from "../../../../policyd/routes/obstacles.ts";
import { seen } from "../diagnose.ts";
import type { NodeFacts } from "../facts.ts";
import type { Check, Remark } from "../finding.ts";

const BRIDGE = "bridge";

export const podNetworks: Check = {
  id: "pod-networks",
  summary: "No other network or route of this node is in the way of pods' CIDRs, its own and those of other nodes.",
  needs: ["network", "links", "addresses", "routes", "discarding"],
  examine: (facts) => [...addressConflicts(facts), ...routeConflicts(facts), ...obstacles(facts)],
};

/** Reports addresses of other links within the pod CIDR. The check `former-plugin` reports those of bridges. */
function addressConflicts(facts: NodeFacts): readonly Remark[] {
  const cidrs = podCidrs(facts);
  const bridges = namesOfBridges(facts);
  return (seen(facts.addresses) ?? []).flatMap(({ link, address }) => {
    const cidr = cidrs.find((one) => doOverlap(one, address));
    const isOurLink = link === facts.place.bridge || link === TUNNEL.name;
    if (cidr === undefined || isOurLink || bridges.has(link)) return [];
    return [conflict(cidr, `the address ${formatCidr(address)} of ${link}`, `ip address show dev ${link}`)];
  });
}

function namesOfBridges({ links }: NodeFacts): ReadonlySet<string> {
  return new Set((seen(links) ?? []).flatMap(({ name, kind }) => (kind === BRIDGE ? [name] : [])));
}

/** Reports others' routes by other links. One to a single address leads to another plugin's pod without a bridge. */
function routeConflicts(facts: NodeFacts): readonly Remark[] {
  const cidrs = podCidrs(facts);
  const { bridge } = facts.place;
  const links = seen(facts.links) ?? [];
  const nameOf = (index: number | undefined): string => links.find((link) => link.index === index)?.name ?? "no link";
  return (seen(facts.routes) ?? []).flatMap(({ destination, outputInterface, protocol, gateway, family }) => {
    if (destination === undefined || protocol === ROUTE_PROTOCOL) return [];
    const cidr = cidrs.find((one) => doOverlap(one, destination));
    const link = nameOf(outputInterface);
    const isOwn = link === bridge || (seen(facts.addresses) ?? []).some(isConnected(link, destination));
    const isOfPod = destination.prefixLength === bitsOf(family) && gateway === undefined;
    if (cidr === undefined || isOwn || isOfPod) return [];
    const route = formatCidr(destination);
    return [conflict(cidr, `the route to ${route} by ${link}`, `ip route show ${route}`)];
  });
}

/** Matches the kernel's route to a link's own network, which is reported with the address already. */
function isConnected(link: string, destination: Cidr) {
  return (one: { readonly link: string; readonly address: Cidr }): boolean =>
    one.link === link &&
    cidrContains(destination, one.address.address) &&
    destination.prefixLength === one.address.prefixLength;
}

function conflict(cidr: Cidr, what: string, look: string): Remark {
  return {
    severity: "error",
    what: `the pod CIDR ${formatCidr(cidr)} overlaps with ${what}`,
    why: "packets for one of the two go to the other",
    way: `give the cluster another pod CIDR (--cluster-cidr), or take the other one away: ${look}`,
  };
}

/** Reports discarding routes in this node's pod CIDRs, and any in other nodes' CIDRs, as our routes to these show. */
function obstacles(facts: NodeFacts): readonly Remark[] {
  const routes = (seen(facts.routes) ?? []).filter(({ table }) => table === MAIN_TABLE);
  const containment = new RouteContainment([
    ...routes.map((route) => ({ route, discards: false })),
    ...(seen(facts.discarding) ?? []).map((route) => ({ route, discards: true })),
  ]);
  const bridge = (seen(facts.links) ?? []).find(({ name }) => name === facts.place.bridge)?.index;
  const own = podCidrs(facts).flatMap((cidr) =>
    ownObstacles(containment, cidr, bridge)
      .filter(({ discards }) => discards)
      .map((found) => obstacle("this node", cidr, found)),
  );
  const others = routes.filter(isOurs).flatMap((route) => {
    const { destination } = route;
    if (destination === undefined) return [];
    const isOnWay = (other: Route): boolean =>
      other.gateway === route.gateway && other.outputInterface === route.outputInterface;
    return peerObstacles(containment, destination, isOnWay).map((found) =>
      obstacle("another node", destination, found),
    );
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

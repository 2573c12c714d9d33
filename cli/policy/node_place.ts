import { type Address, familyOf } from "../../kernel/ip/address.ts";
import { cidrContains } from "../../kernel/ip/cidr.ts";
import type { Node } from "../../objects/model.ts";
import { addressesOfNode, internalFirst } from "../../objects/nodes/node_addresses.ts";
import type { PolicyIndex } from "../../objects/semantics/policies/policy_index.ts";
import { namedPrefixes } from "../../objects/semantics/policies/pod_class.ts";

/** Returns a function that describes a node by the selectors that select it and the prefixes of its addresses. */
export function nodePlace(index: PolicyIndex): (node: Pick<Node, "name" | "addresses">) => string {
  const rules = index.clusterPolicies.flatMap((one) => [...one.rules.egress, ...one.rules.ingress]);
  const peers = rules.flatMap((rule) => rule.peers ?? []);
  const selections = peers.flatMap((peer) => (peer.type === "nodes" ? [peer.names] : []));
  const placeOf = addressPlace([index]);
  return ({ name, addresses }) => {
    const places = internalFirst(addresses).map(placeOf);
    return `${selections.map((names) => (names.has(name) ? "1" : "0")).join("")} ${places.join()}`;
  };
}

/**
 * Returns a function that gives those addresses of a node, also of its bridge, that a policy tells apart from the one by
 * which the node is judged and from each other. A node has them in all of the clusters.
 */
export function furtherAddresses(indexes: readonly PolicyIndex[]): (node: Node) => readonly Address[] {
  const placeOf = addressPlace(indexes);
  return (node) => {
    const first = Map.groupBy(internalFirst(node.addresses), familyOf);
    const seen = new Set([...first.values()].flatMap((all) => all.slice(0, 1)).map(placeOf));
    return addressesOfNode(node).filter((address) => {
      const place = placeOf(address);
      const isOwn = indexes.every(({ owners }) => {
        const owner = owners.get(address)?.[0];
        return owner?.type === "node" && owner.name === node.name;
      });
      if (seen.has(place) || !isOwn) return false;
      seen.add(place);
      return true;
    });
  };
}

/** Returns a function that gives the family of an address and the prefixes that contain it, as text. */
function addressPlace(indexes: readonly PolicyIndex[]): (address: Address) => string {
  const prefixes = indexes.flatMap(namedPrefixes);
  return (address) =>
    `${familyOf(address)}:${prefixes.map((prefix) => (cidrContains(prefix, address) ? "1" : "0")).join("")}`;
}

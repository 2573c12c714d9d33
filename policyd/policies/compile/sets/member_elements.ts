import type { Address } from "../../../../kernel/ip/address.ts";
import type { KeyField } from "../../../../kernel/nftables/model/expression.ts";
import type { ContainerPort } from "../../../../objects/model.ts";
import type { MemberSource } from "./member_set.ts";

/** The ports of pods by their names; the cluster's pods share few lists of ports. */
const byName = new WeakMap<readonly ContainerPort[], ReadonlyMap<string, readonly ContainerPort[]>>();

/** Returns the ports of a list that a source selects by their name. A policy may ask for thousands of names. */
export function portsNamed(
  ports: readonly ContainerPort[],
  { name, protocol }: Extract<MemberSource["ports"], { readonly type: "name" }>,
): readonly ContainerPort[] {
  const index = byName.get(ports) ?? Map.groupBy(ports, (port) => port.name ?? "");
  byName.set(ports, index);
  return (index.get(name) ?? []).filter((port) => (protocol ?? port.protocol) === port.protocol);
}

/**
 * Returns the keys that one source gives a member's address: the address, with each of its ports if the source has
 * ports.
 *
 * @param ports the named ports of the pod at the address; none for a node's
 */
export function memberKeys(
  { ports }: MemberSource,
  address: Address,
  named: readonly ContainerPort[],
): readonly (readonly KeyField[])[] {
  switch (ports.type) {
    case "none":
      return [[address]];
    case "numbers":
      return ports.ports.map(({ protocol, port }) => [address, protocol.toLowerCase(), port]);
    case "name":
      return portsNamed(named, ports).map(({ protocol, port }) => [address, protocol.toLowerCase(), port]);
  }
}

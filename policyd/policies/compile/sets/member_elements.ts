import type { Address } from "../../../../kernel/ip/address.ts";
import type { KeyField } from "../../../../kernel/nftables/model/expression.ts";
import type { ContainerPort } from "../../../../objects/model.ts";
import type { MemberSource } from "./member_set.ts";

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
      return named
        .filter(({ name, protocol }) => name === ports.name && (ports.protocol ?? protocol) === protocol)
        .map(({ protocol, port }) => [address, protocol.toLowerCase(), port]);
  }
}

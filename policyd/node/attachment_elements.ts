import { displayName } from "../../attachment/names_and_macs.ts";
import { linkLocalAddress } from "../../kernel/ip/mac.ts";
import { hostPortElements } from "../../cni/node_rules/host_ports.ts";
import { masqueradeElements } from "../../cni/node_rules/masquerade.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import { familyOf } from "../../kernel/ip/address.ts";
import { commentText } from "../../kernel/nftables/model/identifier.ts";
import type { Chain } from "../../kernel/nftables/model/object.ts";
import type { KeyField } from "../../kernel/nftables/model/expression.ts";
import type { DesiredElement } from "../ruleset/desired/desired_element.ts";
import { endsElements } from "./tables/related_packets.ts";
import { GUARD_SETS } from "./tables/guard.ts";
import { hostPortHooks } from "./tables/host_ports.ts";
import { podMasqueradeHooks } from "./masquerade/share_rules.ts";
import { BRIDGE_TABLE, INET_TABLE } from "../ruleset/table_part.ts";

/** Returns all elements that an attachment contributes to the node's sets. */
export function attachmentElements(attachment: AttachmentRecord): readonly DesiredElement[] {
  return [...guardElements(attachment), ...ruleElements(attachment)];
}

/**
 * Returns the elements that an attachment contributes to the guard's sets: each of its addresses, the link-local
 * address that its interface assigns itself, and its MAC for packets sent before the pod has an address. `macspoofchk`
 * adds nothing: the guard drops frames with a foreign MAC from every port (B12). The elements also say of which
 * connections the pod is an end.
 */
export function guardElements(attachment: AttachmentRecord): readonly DesiredElement[] {
  const { hostInterface, mac, addresses } = attachment;
  const comment = commentOf(attachment);
  const claim = (set: { readonly name: string }, ...key: readonly KeyField[]): DesiredElement => ({
    table: BRIDGE_TABLE,
    set: set.name,
    element: { key, comment },
  });
  const routed = addresses.map(({ address }) => address);
  const linkLocal = linkLocalAddress(mac);
  return [
    ...[...routed, linkLocal].map((address) =>
      claim(familyOf(address) === 4 ? GUARD_SETS.ipv4 : GUARD_SETS.ipv6, hostInterface, mac, address),
    ),
    claim(GUARD_SETS.mac, hostInterface, mac),
    ...endsElements(routed, linkLocal, comment),
  ];
}

/** Returns the hooks that lead packets to the host port and masquerade rules of {@link attachmentElements}. */
export function attachmentHooks({ policyd: rules, portMappings, ipMasq }: AttachmentRecord): readonly Chain[] {
  if (rules === undefined) return [];
  return [...(portMappings.length > 0 ? hostPortHooks : []), ...(ipMasq === true ? podMasqueradeHooks : [])];
}

/** Returns the elements of host ports and masquerade; none where the plugin has put them into its own tables. */
function ruleElements(attachment: AttachmentRecord): readonly DesiredElement[] {
  const { policyd: rules, portMappings: mappings, ipMasq } = attachment;
  if (rules === undefined) return [];
  const comment = commentOf(attachment);
  const addresses = attachment.addresses.map(({ address }) => address);
  const published = hostPortElements({ mappings, addresses, serviceCidrs: rules.serviceCidrs, comment });
  const masqueraded = ipMasq === true ? masqueradeElements(addresses, rules.nonMasqueradeCidrs, comment) : [];
  return [...published, ...masqueraded].flatMap(({ set, elements }) =>
    elements.map((element): DesiredElement => ({ table: INET_TABLE, set: set.name, element })),
  );
}

function commentOf(attachment: AttachmentRecord): string {
  return commentText(displayName(attachment));
}

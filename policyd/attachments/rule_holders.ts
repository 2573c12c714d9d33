import { ClaimIndex } from "../../cni/claim_index.ts";
import { claimsOf, portTaken } from "../../cni/host_port_claim.ts";
import type { Claim } from "../../cni/host_port_claim.ts";
import type { AttachmentRecord } from "../../ipam/attachment.ts";
import type { AttachmentName } from "../../ipam/policyd_messages.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import type { Address } from "../../kernel/ip/address.ts";
import { familyOf, formatAddress } from "../../kernel/ip/address.ts";
import { commentText } from "../../kernel/nftables/identifier.ts";
import { attachmentKey } from "./registry.ts";

/** Why an attachment cannot have what it asks for. */
export interface Conflict {
  /** Who has it. */
  readonly holder: AttachmentRecord;
  /** ERR_HOST_PORT_TAKEN naming the port and its holder, or ERR_CONFIGURATION for an address. */
  readonly error: DrawbridgeError;
}

/** What an attachment has. */
interface Holding {
  readonly holder: AttachmentRecord;
  readonly ports: ClaimIndex<AttachmentRecord>;
}

/** Whether an attachment has host ports or masquerade, whoever keeps the rules for it. */
export function hasRules({ portMappings, ipMasq }: AttachmentRecord): boolean {
  return portMappings.length > 0 || ipMasq === true;
}

/**
 * Which attachments have their host ports and their masquerade: no two of them want the same.
 *
 * Beside each port being one pod's, this keeps what goes into one set apart: the kernel refuses a whole batch in which
 * two ranges overlap, and with it every other pod's elements.
 */
export class RuleHolders {
  readonly #holders = new Map<string, Holding>();

  /** Whether this very record has what it asks for. */
  has(attachment: AttachmentRecord): boolean {
    return this.#holders.get(attachmentKey(attachment))?.holder === attachment;
  }

  /**
   * Gives an attachment what it asks for, all of it or nothing; what it had under its names before is replaced.
   *
   * @returns the first conflict, undefined when it has all of it now
   */
  take(attachment: AttachmentRecord): Conflict | undefined {
    const key = attachmentKey(attachment);
    const claims = claimsOfAll(attachment);
    for (const [other, holding] of this.#holders) {
      const error = other === key ? undefined : refusalBeside(attachment, claims, holding);
      if (error !== undefined) return { holder: holding.holder, error };
    }
    const ports = new ClaimIndex<AttachmentRecord>();
    for (const claim of claims) ports.addClaim(claim, attachment);
    this.#holders.set(key, { holder: attachment, ports });
    return undefined;
  }

  /** Takes from an attachment whatever it has. */
  release(name: AttachmentName): void {
    this.#holders.delete(attachmentKey(name));
  }
}

function refusalBeside(
  attachment: AttachmentRecord,
  claims: readonly Claim[],
  { holder, ports }: Holding,
): DrawbridgeError | undefined {
  const who = commentText(holderName(holder));
  const taken = claims.find((claim) => ports.find(claim) !== undefined);
  if (taken !== undefined) return portTaken(taken.mapping, attachment.portMappings.indexOf(taken.mapping), who);
  const shared = isMasqueraded(attachment) && isMasqueraded(holder) ? sharedAddress(attachment, holder) : undefined;
  return shared === undefined
    ? undefined
    : new DrawbridgeError(
        "ERR_CONFIGURATION",
        `addresses: ${formatAddress(shared)} is also that of ${who} in network ${holder.network}; expected one of its own for ipMasq: give the networks ranges that do not overlap`,
      );
}

function holderName({ pod, containerId }: AttachmentRecord): string {
  return pod === undefined ? containerId : `${pod.namespace}/${pod.name} ${containerId}`;
}

function claimsOfAll({ portMappings, addresses }: AttachmentRecord): readonly Claim[] {
  const families = ([4, 6] as const).filter((family) => addresses.some(({ address }) => familyOf(address) === family));
  return portMappings.flatMap((mapping) => claimsOf(mapping, families));
}

/** By rules of the daemon's: those of a plugin that worked alone are in another table. */
function isMasqueraded({ policyd, ipMasq }: AttachmentRecord): boolean {
  return policyd !== undefined && ipMasq === true;
}

function sharedAddress(one: AttachmentRecord, other: AttachmentRecord): Address | undefined {
  return one.addresses.find(({ address }) => other.addresses.some((its) => its.address === address))?.address;
}

/**
 * Those whose address is another attachment's now: the address store gives an address to one pod of a network, so they
 * are gone, and their DEL never came.
 */
export function supersededBy(
  attachment: AttachmentRecord,
  others: Iterable<AttachmentRecord>,
): readonly AttachmentRecord[] {
  return [...others].filter(
    (other) =>
      other.network === attachment.network &&
      attachmentKey(other) !== attachmentKey(attachment) &&
      sharedAddress(attachment, other) !== undefined,
  );
}

/**
 * Those of several whose address is another's now, where nobody says who came last: it is that one's whose link is
 * there, else the first's. Links are asked for only where an address is shared.
 */
export function supersededAmong(
  attachments: readonly AttachmentRecord[],
  hasLink: (attachment: AttachmentRecord) => boolean,
): readonly AttachmentRecord[] {
  const byAddress = Map.groupBy(
    attachments.flatMap((attachment) =>
      attachment.addresses.map(({ address }) => ({ attachment, place: `${attachment.network} ${address}` })),
    ),
    ({ place }) => place,
  );
  const groups = [...byAddress.values()].filter(({ length }) => length > 1);
  const linked: AttachmentRecord[] = [];
  const others: AttachmentRecord[] = [];
  for (const attachment of new Set(groups.flat().map((use) => use.attachment))) {
    (hasLink(attachment) ? linked : others).push(attachment);
  }
  const kept: AttachmentRecord[] = [];
  const superseded: AttachmentRecord[] = [];
  for (const attachment of [...linked, ...others]) {
    (supersededBy(attachment, kept).length === 0 ? kept : superseded).push(attachment);
  }
  return superseded;
}

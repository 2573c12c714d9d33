import { ClaimIndex } from "../../attachment/claim_index.ts";
import { claimsOfRecord, portTaken } from "../../attachment/host_port_claim.ts";
import type { AttachmentRecord } from "../../attachment/attachment.ts";
import type { AttachmentName } from "../../attachment/policyd_messages.ts";
import { DrawbridgeError } from "../../kernel/error.ts";
import { type Address, formatAddress } from "../../kernel/ip/address.ts";
import { commentText } from "../../kernel/nftables/model/identifier.ts";
import { attachmentKey } from "./registry.ts";

/** Why an attachment cannot have what it asks for. */
export interface Conflict {
  /** The attachment that has it. */
  readonly holder: AttachmentRecord;
  /** ERR_HOST_PORT_TAKEN naming the port and its holder, or ERR_CONFIGURATION for an address. */
  readonly error: DrawbridgeError;
}

/** Whether an attachment has host ports or masquerade, whether the daemon or the plugin writes the rules for it. */
export function hasRules({ portMappings, ipMasq }: AttachmentRecord): boolean {
  return portMappings.length > 0 || ipMasq === true;
}

/**
 * Decides which attachments have their host ports and their masquerade, so that no two of them have the same.
 *
 * Each port then belongs to one pod, and the elements of one set do not overlap: the kernel refuses a whole batch in
 * which two ranges overlap, and with it every other pod's elements.
 */
export class RuleHolders {
  readonly #holders = new Map<string, AttachmentRecord>();
  /** The holders of the host ports. */
  readonly #ports = new ClaimIndex<AttachmentRecord>();

  /** Whether this record, not only one with its names, has what it asks for. */
  has(attachment: AttachmentRecord): boolean {
    return this.#holders.get(attachmentKey(attachment)) === attachment;
  }

  /**
   * Gives an attachment all that it asks for, or nothing; replaces what an attachment with the same names had.
   *
   * @returns the first conflict, undefined when the attachment has everything
   */
  take(attachment: AttachmentRecord): Conflict | undefined {
    const before = this.#holders.get(attachmentKey(attachment));
    this.release(attachment);
    const conflict = this.#conflictOf(attachment);
    const holder = conflict === undefined ? attachment : before;
    if (holder === undefined) return conflict;
    this.#holders.set(attachmentKey(holder), holder);
    for (const claim of claimsOfRecord(holder)) this.#ports.addClaim(claim, holder);
    return conflict;
  }

  /** Takes everything from an attachment. */
  release(name: AttachmentName): void {
    const key = attachmentKey(name);
    const holder = this.#holders.get(key);
    if (holder === undefined) return;
    for (const claim of claimsOfRecord(holder)) this.#ports.removeClaim(claim, holder);
    this.#holders.delete(key);
  }

  #conflictOf(attachment: AttachmentRecord): Conflict | undefined {
    for (const claim of claimsOfRecord(attachment)) {
      const holder = this.#ports.find(claim);
      if (holder === undefined) continue;
      return { holder, error: portTaken(claim.mapping, commentText(holderName(holder))) };
    }
    if (!isMasqueraded(attachment)) return undefined;
    for (const holder of this.#holders.values()) {
      const shared = isMasqueraded(holder) ? sharedAddress(attachment, holder) : undefined;
      if (shared !== undefined) return { holder, error: addressTaken(shared, holder) };
    }
    return undefined;
  }
}

function addressTaken(shared: Address, holder: AttachmentRecord): DrawbridgeError {
  return new DrawbridgeError(
    "ERR_CONFIGURATION",
    `addresses: ${formatAddress(shared)} is also that of ${commentText(holderName(holder))} in network ${holder.network}; expected one of its own for ipMasq: give the networks ranges that do not overlap`,
  );
}

function holderName({ pod, containerId }: AttachmentRecord): string {
  return pod === undefined ? containerId : `${pod.namespace}/${pod.name} ${containerId}`;
}

/** Whether the daemon's rules masquerade it; a plugin that works without the daemon has rules in another table. */
function isMasqueraded({ policyd, ipMasq }: AttachmentRecord): boolean {
  return policyd !== undefined && ipMasq === true;
}

function sharedAddress(one: AttachmentRecord, other: AttachmentRecord): Address | undefined {
  return one.addresses.find(({ address }) => other.addresses.some((its) => its.address === address))?.address;
}

/**
 * Returns the attachments that have an address of a new attachment. The address store gives an address to only one pod
 * of a network, so these pods are gone and their DEL never came.
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
 * Returns the attachments superseded by others with the same address, if the order in which they came is unknown: the
 * one whose link exists keeps the address, otherwise the first. Links are checked only for shared addresses.
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

import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import type { Owner } from "../../../ipam/owner.ts";
import type { Address } from "../../../kernel/ip/address.ts";

/** The kinds of things that ended sandboxes may leave, in the order in which they are listed. */
export const LEAK_KINDS = ["record", "address", "link", "element", "host port"] as const;

/** The repair of a leak. */
export type Repair =
  /** Like DEL: link, rules, addresses, neighbours, record. */
  | { readonly kind: "detach"; readonly record: AttachmentRecord }
  | { readonly kind: "release"; readonly network: string; readonly owner: Owner; readonly address: Address }
  /** Deletes the device that delayed the packets of a link that is gone. */
  | { readonly kind: "link"; readonly name: string }
  /** Removes the elements of a host interface from the plugin's own tables. */
  | { readonly kind: "withdraw"; readonly hostInterface: string };

/** Something on the node that belongs to no existing sandbox. */
export interface Leak {
  readonly kind: (typeof LEAK_KINDS)[number];
  /** Its name in files and in the kernel. */
  readonly what: string;
  /** Why it counts as leaked. */
  readonly why: string;
  /** The repair, or why there is none, with the way out; several leaks may have the same one. */
  readonly repair: Repair | string;
}

/** The findings of an audit. */
export interface AuditFindings {
  readonly leaks: readonly Leak[];
  /** The parts of the node that could not be checked, and why. */
  readonly unseen: readonly { readonly what: string; readonly reason: string; readonly needsRoot: boolean }[];
}

/** Returns a repair as a text, equal for two leaks that one repair fixes. */
export function repairKey(repair: Repair): string {
  switch (repair.kind) {
    case "detach":
      return `detach ${repair.record.network}/${repair.record.containerId}:${repair.record.ifname}`;
    case "release":
      return `release ${repair.network} ${repair.address}`;
    case "link":
      return `link ${repair.name}`;
    case "withdraw":
      return `withdraw ${repair.hostInterface}`;
  }
}

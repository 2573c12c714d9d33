import type { Address } from "../kernel/ip/address.ts";
import type { Owner } from "./owner.ts";

/** The content of an address file: its owner, an owner without interface (old host-local), or nothing readable. */
export type Reservation =
  | { readonly kind: "owned"; readonly address: Address; readonly owner: Owner }
  | { readonly kind: "legacy"; readonly address: Address; readonly containerId: string }
  | { readonly kind: "unreadable"; readonly address: Address };

/** Returns the content of an owner's address file: host-local's, without a newline at the end. */
export function contentOf(owner: Owner): string {
  return `${owner.containerId}\r\n${owner.ifname}`;
}

/** Parses the content of an address file; undefined stands for a file that is not a small regular one. */
export function parseReservation(address: Address, content: string | undefined): Reservation {
  const [, containerId, ifname] = /^([a-zA-Z0-9][a-zA-Z0-9_.-]*)(?:\r\n(\S+))?$/.exec(content ?? "") ?? [];
  if (containerId === undefined) return { kind: "unreadable", address };
  if (ifname === undefined) return { kind: "legacy", address, containerId };
  return { kind: "owned", address, owner: { containerId, ifname } };
}

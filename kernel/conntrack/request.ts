import { familyOf } from "../ip/address.ts";
import { familyNumber, messageType, Subsystem } from "../netlink/netfilter_message.ts";
import type { AttributeValues } from "../netlink/attribute.ts";
import { type Request, request } from "../netlink/message.ts";
import { type ConntrackKey, entryLayout } from "./entry.ts";
import { type ConntrackFilter, kernelFilter, type Masked } from "./filter.ts";
import type { ConntrackLabels } from "./labels.ts";
import { formatTuple, tupleValues } from "./tuple.ts";

/** IPCTNL_MSG_CT_* as message types (include/uapi/linux/netfilter/nfnetlink_conntrack.h). */
export const ConntrackMessage = {
  NEW: messageType(Subsystem.CONNTRACK, 0),
  GET: messageType(Subsystem.CONNTRACK, 1),
  DELETE: messageType(Subsystem.CONNTRACK, 2),
} as const;

type EntryAttributes = AttributeValues<(typeof entryLayout)["attributes"]>;

/** Returns the request for the entries. The kernel filters only in part: apply the filter to its answers, too. */
export function dumpEntries(filter: ConntrackFilter = {}): Request {
  const { family, attributes } = kernelFilter(filter);
  return request(
    "list conntrack entries",
    { type: ConntrackMessage.GET, flags: 0, layout: entryLayout, needs: "conntrack" },
    { family: familyNumber(family) },
    attributes,
  );
}

/**
 * Returns the request to delete one entry; ENOENT when there is none, or when the ID is that of another entry.
 *
 * It always has a tuple: without one the kernel would delete the whole table. The kernel finds an entry by either of
 * its tuples, so without an ID it may delete the entry of a flow in the other direction.
 */
export function deleteEntry(key: ConntrackKey): Request {
  return entryRequest(
    `delete conntrack entry ${formatTuple(key.original)}`,
    ConntrackMessage.DELETE,
    key,
    key.id === undefined ? {} : { id: key.id },
  );
}

/**
 * Returns the request to set the labels in the mask to those of `value`; ENOENT when there is no such entry.
 *
 * The kernel answers ENOSPC when the entry has no room for labels. An entry gets room when it is made, if a rule of the
 * namespace sets a label at that time (nf_ct_labels_ext_add). The kernel ignores the key's ID.
 */
export function changeLabels(key: ConntrackKey, { value, mask }: Masked<ConntrackLabels>): Request {
  return entryRequest(`change labels of conntrack entry ${formatTuple(key.original)}`, ConntrackMessage.NEW, key, {
    // The kernel flips bits of the value that are not in the mask (replace_u32 of nf_conntrack_labels.c).
    labels: value & mask,
    labelsMask: mask,
  });
}

function entryRequest(operation: string, type: number, key: ConntrackKey, more: EntryAttributes): Request {
  const { original, zone = 0, zoneDirection = "both" } = key;
  const tuple = tupleValues(original);
  return request(
    operation,
    { type, flags: 0, layout: entryLayout },
    { family: familyNumber(familyOf(original.source)) },
    {
      // A zone of the reply direction does not apply to original tuples.
      original: zone !== 0 && zoneDirection === "original" ? { ...tuple, zone } : tuple,
      ...(zone !== 0 && zoneDirection === "both" ? { zone } : {}),
      ...more,
    },
  );
}

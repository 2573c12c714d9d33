import { parseAddress } from "../../kernel/ip/address.ts";
import type { Cidr } from "../../kernel/ip/cidr.ts";
import type { Node, NodeAddress } from "../model.ts";
import { readLabels } from "../name.ts";
import { expectString, type Reader, expectNetwork } from "./reader.ts";
import { readMetadata } from "./metadata.ts";

/** One for each family; the API server accepts no more. */
const MOST_POD_CIDRS = 2;
/** More addresses than any real node needs; each may cost every other node an entry. */
const MOST_ADDRESSES = 16;

/**
 * Reads a v1 Node. An invalid address or pod CIDR is omitted and reported. Of more than two pod CIDRs none is used,
 * and addresses after the first 16 are omitted.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readNode(object: Reader): Node {
  const { reader, name, isTerminating } = readMetadata(object);
  const spec = object.object("spec");
  const status = object.object("status");
  return Object.freeze({
    kind: "Node",
    key: name,
    name,
    labels: readLabels(reader, "labels"),
    addresses: readAddresses(status),
    podCidrs: readPodCidrs(spec),
    isLeaving: isTerminating || spec.eachObject("taints", isToBeDeleted).includes(true),
    ...readConditions(status),
  });
}

/** Whether the autoscaler is about to delete the node, whatever the taint's effect (kube-proxy's ToBeDeletedTaint). */
function isToBeDeleted(taint: Reader): boolean {
  return taint.optionalString("key") === "ToBeDeletedByClusterAutoscaler";
}

/**
 * Reads the conditions: since when the kubelet has not been Ready, and whether the node has the condition that cloud
 * providers set, and that the program that adds the routes clears.
 */
function readConditions(status: Reader): Pick<Node, "isNetworkUnavailable" | "notReadySince"> {
  let notReadySince = Number.NaN;
  const isUnavailable = (condition: Reader): boolean => {
    const type = condition.get("type");
    if (type === "Ready" && condition.string("status") !== "True") {
      notReadySince = Date.parse(condition.optionalString("lastTransitionTime") ?? "");
    }
    return type === "NetworkUnavailable" && condition.string("status") !== "False";
  };
  const found = status.attempt(() => status.eachObject("conditions", isUnavailable));
  return {
    isNetworkUnavailable: found?.includes(true) ?? false,
    ...(Number.isNaN(notReadySince) ? {} : { notReadySince }),
  };
}

function readAddresses(status: Reader): readonly NodeAddress[] {
  const addresses = status.eachObject("addresses", readAddress);
  if (addresses.length <= MOST_ADDRESSES) return addresses;
  status.tell(
    `${status.path("addresses")}: ${addresses.length} addresses; expected at most ${MOST_ADDRESSES} ` +
      "(those after them are ignored)",
  );
  return Object.freeze(addresses.slice(0, MOST_ADDRESSES));
}

function readAddress(entry: Reader): NodeAddress | undefined {
  const type = entry.string("type");
  if (type !== "InternalIP" && type !== "ExternalIP") return undefined;
  return Object.freeze({ type, address: parseAddress(entry.string("address"), entry.path("address")) });
}

/** Reads `podCIDRs`, or the older `podCIDR` where a file has only that. */
function readPodCidrs(spec: Reader): readonly Cidr[] {
  const decode = (value: unknown, field: string): Cidr => expectNetwork(expectString(value, field), field);
  if (spec.get("podCIDRs") !== undefined) {
    return spec.attempt(() => spec.each("podCIDRs", decode, MOST_POD_CIDRS)) ?? Object.freeze([]);
  }
  const single = spec.get("podCIDR");
  const cidr = single === undefined ? undefined : spec.attempt(() => decode(single, spec.path("podCIDR")));
  return Object.freeze(cidr === undefined ? [] : [cidr]);
}

import { parseAddress } from "../../../kernel/ip/address.ts";
import type { Cidr } from "../../../kernel/ip/cidr.ts";
import type { Node, NodeAddress } from "../model.ts";
import { readLabels } from "../name.ts";
import type { Reader } from "../reader.ts";
import { expectString } from "../reader.ts";
import { expectNetwork } from "./address.ts";
import { readMetadata } from "./metadata.ts";

/**
 * A v1 Node. An address or a pod CIDR that is invalid is left out and told.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readNode(object: Reader): Node {
  const { reader, name, isTerminating } = readMetadata(object);
  const spec = object.object("spec");
  return Object.freeze({
    kind: "Node",
    key: name,
    name,
    labels: readLabels(reader, "labels"),
    addresses: object.object("status").eachObject("addresses", readAddress),
    podCidrs: readPodCidrs(spec),
    isLeaving: isTerminating || spec.eachObject("taints", isToBeDeleted).includes(true),
  });
}

/** Whatever its effect (kube-proxy's ToBeDeletedTaint). */
function isToBeDeleted(taint: Reader): boolean {
  return taint.optionalString("key") === "ToBeDeletedByClusterAutoscaler";
}

function readAddress(entry: Reader): NodeAddress | undefined {
  const type = entry.string("type");
  if (type !== "InternalIP" && type !== "ExternalIP") return undefined;
  return Object.freeze({ type, address: parseAddress(entry.string("address"), entry.path("address")) });
}

/** `podCIDRs`, or the older `podCIDR` where a file has only that. */
function readPodCidrs(spec: Reader): readonly Cidr[] {
  const decode = (value: unknown, field: string): Cidr => expectNetwork(expectString(value, field), field);
  if (spec.get("podCIDRs") !== undefined) return spec.each("podCIDRs", decode);
  const single = spec.get("podCIDR");
  const cidr = single === undefined ? undefined : spec.attempt(() => decode(single, spec.path("podCIDR")));
  return Object.freeze(cidr === undefined ? [] : [cidr]);
}

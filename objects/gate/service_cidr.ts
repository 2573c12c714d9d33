import type { ServiceCidr } from "../model.ts";
import { expectString, type Reader } from "./reader.ts";
import { expectNetwork } from "./address.ts";
import { readMetadata } from "./metadata.ts";

/** One for each family. */
const MOST_CIDRS = 2;

/**
 * Reads a networking.k8s.io/v1 ServiceCIDR (KEP-1880). An invalid range is omitted and reported.
 *
 * @throws DrawbridgeError ERR_OBJECT
 */
export function readServiceCidr(object: Reader): ServiceCidr {
  const { name } = readMetadata(object);
  const spec = object.object("spec");
  const cidrs = spec.each("cidrs", (value, field) => expectNetwork(expectString(value, field), field), MOST_CIDRS);
  return Object.freeze({ kind: "ServiceCIDR", key: name, name, cidrs });
}

import type { LocatedObject } from "../../../objects/yaml/documents.ts";
import { at, listAt, textAt, textsAt } from "../raw.ts";

const MANAGED_BY = "endpointslice.kubernetes.io/managed-by";
/** Writes what mirrors Endpoints, which counts only for a Service without a selector. */
export const MIRROR = "endpointslicemirroring-controller.k8s.io";
const MOST_ENDPOINTS = 1000;

/** Returns the controller that says of an EndpointSlice that it writes it; undefined without one. */
export function managerOf(value: unknown): string | undefined {
  return textAt(value, "metadata", "labels", MANAGED_BY);
}

/**
 * Returns the EndpointSlices that the control plane makes of Endpoints (KEP-0752): one for each subset and family, with
 * at most 1,000 endpoints. Those with its label against it, and locks of leaders, have none. Any other object is returned
 * as it is.
 */
export function mirrored(object: LocatedObject): readonly LocatedObject[] {
  const { value } = object;
  if (textAt(value, "apiVersion") !== "v1" || textAt(value, "kind") !== "Endpoints") return [object];
  const metadata = at(value, "metadata");
  const isLock = textAt(metadata, "annotations", "control-plane.alpha.kubernetes.io/leader") !== undefined;
  if (isLock || textAt(metadata, "labels", "endpointslice.kubernetes.io/skip-mirror") === "true") return [object];
  const name = textAt(metadata, "name");
  const labels = {
    ...Object.fromEntries(textsAt(metadata, "labels")),
    "kubernetes.io/service-name": name,
    [MANAGED_BY]: MIRROR,
  };
  return listAt(value, "subsets").flatMap((subset, i) => {
    const endpoints = ["addresses", "notReadyAddresses"].flatMap((key) =>
      listAt(subset, key).map((one) => ({
        addresses: [at(one, "ip")],
        conditions: { ready: key === "addresses" },
        nodeName: at(one, "nodeName"),
        targetRef: at(one, "targetRef"),
      })),
    );
    return (["IPv4", "IPv6"] as const).flatMap((addressType): readonly LocatedObject[] => {
      const ofFamily = endpoints
        .slice(0, MOST_ENDPOINTS)
        .filter(({ addresses: [ip] }) => String(ip).includes(":") === (addressType === "IPv6"));
      if (ofFamily.length === 0) return [];
      const slice = {
        apiVersion: "discovery.k8s.io/v1",
        kind: "EndpointSlice",
        metadata: {
          name: `${name}-mirror-${i}-${addressType.toLowerCase()}`,
          namespace: textAt(metadata, "namespace"),
          labels,
        },
        addressType,
        ports: listAt(subset, "ports"),
        endpoints: ofFamily,
      };
      return [{ value: slice, lineOf: () => object.lineOf(["subsets", i]) }];
    });
  });
}

import type { ClusterObject, EndpointSlice } from "../../objects/model.ts";
import { clusterOf } from "../cluster/cluster.ts";
import { serviceObjects } from "../cluster/service_objects.ts";
import type { Manifest } from "../input/manifests.ts";

/** Objects with the EndpointSlices that a cluster would add. */
export interface WithEndpoints {
  readonly objects: readonly ClusterObject[];
  /** Sentences that say what was added, and which Services have no endpoints. */
  readonly remarks: readonly string[];
}

/**
 * Adds EndpointSlices to objects. Endpoints come only from these, which a cluster makes and people seldom write: a
 * Service without any gets slices with the pods that its selector selects. Pods without an address are omitted.
 *
 * @throws DrawbridgeError ERR_INPUT for a selector the API server would refuse
 */
export function withEndpoints(manifests: readonly Manifest[]): WithEndpoints {
  const cluster = clusterOf(manifests);
  const { derived } = serviceObjects(cluster);
  const isReal = ({ address }: EndpointSlice["endpoints"][number]): boolean =>
    cluster.placeholderAddresses.ownerOf(address) === undefined;
  const added = new Map(
    [...derived].map(([key, { slices }]) => [
      key,
      slices
        .map((slice) => ({ ...slice, endpoints: slice.endpoints.filter(isReal) }))
        .filter(({ endpoints }) => endpoints.length > 0),
    ]),
  );
  const objects = manifests.map(({ object }) => object);
  const served = new Set(
    objects.flatMap((object) =>
      object.kind === "EndpointSlice" ? [`${object.namespace}/${object.serviceName ?? ""}`] : [],
    ),
  );
  const remarks = objects.flatMap((object) => {
    if (object.kind !== "Service" || object.clusterIps.length === 0 || served.has(object.key)) return [];
    const start = `Service ${object.key} has no EndpointSlice among the files`;
    if ((added.get(object.key) ?? []).length === 0)
      return [`${start} and no pod with an address: its clients are refused.`];
    return [`${start}: its endpoints are the pods that ${derived.get(object.key)?.selector ?? ""} selects.`];
  });
  return { objects: [...objects, ...[...added.values()].flat()], remarks };
}

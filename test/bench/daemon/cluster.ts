import type { ApiServerProcess } from "../../apiserver/process.ts";
import { type RawObject, recordOf } from "../../apiserver/storage.ts";
import { baseManifests, benchPolicies, policyManifest } from "../objects/policies.ts";
import { benchServices, serviceManifest, sliceManifest } from "../objects/services.ts";
import type { Plan } from "./plan.ts";

/** Fields of a pod in an API server that nothing in this benchmark reads: three kilobytes in most clusters. */
const UNREAD = {
  managedFields: Array.from({ length: 3 }, (_, number) => ({
    manager: `manager-${number}`,
    operation: "Update",
    apiVersion: "v1",
    time: "2026-01-01T00:00:00Z",
    fieldsType: "FieldsV1",
    fieldsV1: Object.fromEntries(
      Array.from({ length: 20 }, (_field, i) => [`f:field-${i}`, { "f:part": {}, ".": {} }]),
    ),
  })),
  annotations: { "example.com/checksum": "a".repeat(64) },
};
const UNREAD_STATUS = {
  conditions: ["Initialized", "Ready", "ContainersReady", "PodScheduled"].map((type) => ({
    type,
    status: "True",
    lastProbeTime: null,
    lastTransitionTime: "2026-01-01T00:00:00Z",
  })),
  qosClass: "Burstable",
  startTime: "2026-01-01T00:00:00Z",
};

/** The number of objects in one message to the API server's process. */
const OBJECTS_AT_ONCE = 1000;

/** Gives an API server objects. */
export async function fill(server: ApiServerProcess, objects: readonly RawObject[]): Promise<void> {
  for (let next = 0; next < objects.length; next += OBJECTS_AT_ONCE) {
    await server.apply(...objects.slice(next, next + OBJECTS_AT_ONCE));
  }
}

/** Returns every object of the cluster, as an API server stores it. */
export function clusterObjects({ pods, services, endpoints, policies }: Plan): readonly RawObject[] {
  const size = { pods, policies };
  const served = benchServices({ services, endpoints });
  return [
    ...baseManifests(size).map(asStored),
    ...benchPolicies(size).map(policyManifest).map(asStored),
    ...served.map(serviceManifest).map(asStored),
    ...served.map(sliceManifest).map(asStored),
  ];
}

/**
 * Returns an object with the fields that only other programs read; in a pod as many as the kubelet and controllers
 * write.
 */
export function asStored(manifest: object): RawObject {
  const object = recordOf(manifest);
  if (object["kind"] !== "Pod") return object;
  return {
    ...object,
    metadata: { ...recordOf(object["metadata"]), ...UNREAD },
    status: { ...recordOf(object["status"]), ...UNREAD_STATUS },
  };
}

import * as fc from "fast-check";
import type { AttachmentRecord } from "../../../attachment/attachment.ts";
import { parseCidr } from "../../../kernel/ip/cidr.ts";
import { macFromBytes } from "../../../kernel/ip/mac.ts";
import type { ClusterObject, ObjectChange } from "../../../objects/model.ts";
import { attachmentRecord } from "../cni/attachment_record.ts";
import { randomClusters, serviceManifests } from "../evaluate/arbitrary_cluster.ts";
import { PLACES } from "../evaluate/arbitrary_world.ts";
import { ipv6Twin } from "../evaluate/family_twin.ts";
import { storeOf } from "../evaluate/store.ts";

const SERVICES = 40;
const SAMPLES = 400;
const ATTACHMENTS = 12;

/** An event of a node: an object or a pod is created, changed or deleted. */
export type ClusterEvent =
  | { readonly type: "object"; readonly change: ObjectChange }
  | { readonly type: "attachment"; readonly name: string; readonly attachment: AttachmentRecord | undefined };

/**
 * Generates an endless sequence of random events: Services and their slices of both families that claim each other's
 * addresses and ports, the nodes with changing zones, addresses and pod ranges, and pods.
 *
 * @param random numbers from 0 to 1; the same ones give the same events
 */
export function* clusterEvents(random: () => number): Generator<ClusterEvent, never> {
  const below = (count: number): number => Math.floor(random() * count);
  const objects = [...Map.groupBy(sampledObjects(below(2 ** 31)), ({ kind, key }) => `${kind} ${key}`).values()];
  for (;;) {
    if (below(20) === 0) {
      const number = below(ATTACHMENTS);
      const attachment = below(3) === 0 ? undefined : anyAttachment(number, below(3));
      yield { type: "attachment", name: `pod${number}`, attachment };
      continue;
    }
    const versions = objects[below(objects.length)] ?? [];
    const object = versions[below(versions.length)];
    if (object === undefined) throw new Error("no objects");
    const { kind, key } = object;
    yield {
      type: "object",
      change: below(4) === 0 ? { type: "delete", kind, key } : { type: "set", kind, key, object },
    };
  }
}

/** Returns many versions of each of some objects. */
function sampledObjects(seed: number): readonly ClusterObject[] {
  const services = fc.sample(randomClusters(PLACES), { numRuns: SAMPLES, seed }).flatMap((cluster) => cluster.services);
  const manifests = services.flatMap((service, number): readonly object[] => {
    const own = serviceManifests(service, number % SERVICES);
    return number % 2 === 0 ? own : (ipv6Twin(own) as readonly object[]);
  });
  return [...manifests, ...nodeVersions()].flatMap((manifest) => {
    const store = storeOf([manifest]);
    return [...store.services.values(), ...store.endpointSlices.values(), ...store.nodes.values()];
  });
}

function nodeVersions(): readonly object[] {
  return ["n1", "n2", "n3"].flatMap((name, node) =>
    ["a", "b", undefined].flatMap((zone) =>
      [4, 5].map((last) => ({
        apiVersion: "v1",
        kind: "Node",
        metadata: { name, labels: zone === undefined ? {} : { "topology.kubernetes.io/zone": zone } },
        spec: { podCIDRs: [`10.244.${node}.0/24`, `fd00:10:244:${last}::/64`] },
        status: { addresses: [{ type: "InternalIP", address: `10.240.0.${last}` }] },
      })),
    ),
  );
}

function anyAttachment(number: number, version: number): AttachmentRecord {
  return attachmentRecord({
    containerId: `pod${number}`,
    hostInterface: `dbv${number}`,
    mac: macFromBytes(Uint8Array.of(2, 0, 0, 0, version, number)),
    addresses: [
      parseCidr(`10.244.1.${5 + number + version}/32`),
      parseCidr(`fd00:10:244:1::${5 + number + version}/128`),
    ],
    portMappings: [],
  });
}

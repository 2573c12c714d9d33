import { namespaceManifest, type NodeName, type PodFields, podManifest, type PodPlace } from "./place.ts";
import { PolicyLab, type PolicyLabOptions } from "./policy_lab.ts";
import { listenAll } from "./nine_pods.ts";

/** Pods by their keys, each with its node and the fields of its object. */
export type NamedPods = Readonly<Record<string, PodFields & { readonly node: NodeName }>>;

/** Returns a lab of a few pods, which listen as those of {@link ninePodLab} do. */
export async function namedLab(
  name: string,
  pods: NamedPods,
  ports: readonly number[],
  configuration: PolicyLabOptions["configuration"] = {},
): Promise<PolicyLab> {
  const places = Object.entries(pods).map(([key, { node }]): PodPlace => ({ key, node }));
  const bridgeNetfilter = { node1: true, node2: false };
  const lab = await PolicyLab.create({ name, pods: places, bridgeNetfilter, configuration });
  for (const place of lab.places.values()) listenAll(lab.prober, place, ports);
  return lab;
}

/**
 * Returns the objects of such pods, of their namespaces, each labelled with its name at `project`, and of the nodes.
 */
export function namedPods(lab: PolicyLab, pods: NamedPods): readonly object[] {
  const namespaces = new Set(Object.keys(pods).map((key) => key.split("/")[0] ?? ""));
  return [
    ...lab.nodeManifests(),
    ...[...namespaces].map((name) => namespaceManifest(name, { project: name })),
    ...Object.entries(pods).map(([key, fields]) => podManifest(lab.place(key), fields.node, fields)),
  ];
}

import type { Pod } from "../../objects/model.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { workloadKeyOf } from "../../objects/workload_name.ts";
import type { Manifest } from "./manifests.ts";
import { CONTROLLER_LABELS } from "./workload.ts";

/** Returns the pods of templates without those of which another pod of the workload shows all that policies ask for. */
export function unshownPods(templates: readonly Manifest<Pod>[], pods: readonly Pod[]): readonly Manifest<Pod>[] {
  const known = Map.groupBy(pods, workloadKeyOf);
  return templates.filter(({ object }) => known.get(workloadKeyOf(object))?.some((pod) => shows(pod, object)) !== true);
}

/**
 * Returns whether a pod has what its template says; controllers and webhooks add to that. A finished pod shows only the
 * template of a Job: that of any other workload is about to make the next one.
 */
function shows(pod: Pod, { labels, ports, hostNetwork, controller }: Pod): boolean {
  if (isFinished(pod) && controller?.kind !== "Job") return false;
  return (
    pod.hostNetwork === hostNetwork &&
    Object.entries(labels).every(([key, value]) => CONTROLLER_LABELS.includes(key) || pod.labels[key] === value) &&
    ports.every(({ name, protocol, port }) =>
      pod.ports.some((one) => one.name === name && one.protocol === protocol && one.port === port),
    )
  );
}

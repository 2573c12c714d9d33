import { printable } from "./printable.ts";
import type { Controller, Pod } from "./model.ts";

const TEMPLATE_HASH = "pod-template-hash";

/**
 * Returns the workload of a pod: the Deployment of its ReplicaSet, the CronJob of its Job, or else its controller; a
 * pod without a controller is its own workload (kind Pod).
 *
 * A ReplicaSet of a Deployment is named after it and the hash of its template, which its pods carry as a label; a Job
 * of a CronJob after it and a time in minutes, of at least eight digits.
 */
export function workloadNameOf({ name, labels, controller }: Pick<Pod, "name" | "labels" | "controller">): Controller {
  if (controller === undefined) return { kind: "Pod", name };
  const hash = labels[TEMPLATE_HASH];
  if (controller.kind === "ReplicaSet" && hash !== undefined && controller.name.endsWith(`-${hash}`)) {
    return { kind: "Deployment", name: controller.name.slice(0, -hash.length - 1) };
  }
  const [, cronJob] = controller.kind === "Job" ? (/^(.+)-\d{8,}$/.exec(controller.name) ?? []) : [];
  return cronJob === undefined ? controller : { kind: "CronJob", name: cronJob };
}

/** Returns a workload's name for people: `NAMESPACE/KIND/NAME` with the kind in lower case, or `NAMESPACE/POD`. */
export function workloadText(pod: Pod): string {
  const { kind, name } = workloadNameOf(pod);
  // The kind in a pod's reference to its controller has not been checked.
  return kind === "Pod" ? pod.key : printable(`${pod.namespace}/${kind.toLowerCase()}/${name}`);
}

/** Returns a key that all pods of a workload share and no others have. */
export function workloadKeyOf(pod: Pod): string {
  const { kind, name } = workloadNameOf(pod);
  return `${pod.namespace}/${kind}/${name}`;
}

import { printable } from "./printable.ts";
import type { Controller, Pod } from "./model.ts";

/** The labels with the hash of a template, each with the kind that has ReplicaSets named after it. */
const TEMPLATE_HASHES = [
  ["pod-template-hash", "Deployment"],
  ["rollouts-pod-template-hash", "Rollout"],
] as const;
const JOB_SET = "jobset.sigs.k8s.io/jobset-name";

/**
 * Returns the workload of a pod: the Deployment or Rollout of its ReplicaSet, the CronJob or JobSet of its Job, or else
 * its controller; a pod without a controller is its own workload (kind Pod).
 *
 * A ReplicaSet of a Deployment or a Rollout is named after it and the hash of its template, which its pods carry as a
 * label; a Job of a CronJob after it and a time in minutes, of at least eight digits; a Job of a JobSet after it.
 */
export function workloadNameOf({ name, labels, controller }: Pick<Pod, "name" | "labels" | "controller">): Controller {
  if (controller === undefined) return { kind: "Pod", name };
  for (const [label, kind] of TEMPLATE_HASHES) {
    const end = `-${labels[label] ?? ""}`;
    const isOwn = controller.kind === "ReplicaSet" && end.length > 1 && controller.name.endsWith(end);
    if (isOwn) return { kind, name: controller.name.slice(0, -end.length) };
  }
  if (controller.kind !== "Job") return controller;
  const jobSet = labels[JOB_SET];
  if (jobSet !== undefined && controller.name.startsWith(`${jobSet}-`)) return { kind: "JobSet", name: jobSet };
  const [, cronJob] = /^(.+)-\d{8,}$/.exec(controller.name) ?? [];
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

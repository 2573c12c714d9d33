import type { Controller, Pod } from "../../policyd/cluster/model.ts";

const TEMPLATE_HASH = "pod-template-hash";

/**
 * What people call the thing a pod is one of: the Deployment behind its ReplicaSet, the CronJob behind its Job, else its
 * controller; a pod that stands alone is its own (kind Pod).
 *
 * A ReplicaSet of a Deployment is named after it and the hash of its template, which its pods carry as a label; a Job of
 * a CronJob after it and a time in minutes, of at least eight digits.
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

/** Tells workloads apart: one text for all pods of one. */
export function workloadKeyOf(pod: Pod): string {
  const { kind, name } = workloadNameOf(pod);
  return `${pod.namespace}/${kind}/${name}`;
}

import { printable } from "../log/line.ts";
import type { Controller, Pod } from "./model.ts";

const TEMPLATE_HASH = "pod-template-hash";

/**
 * Returns the workload of a pod: the Deployment of its ReplicaSet, the CronJob of its Job, or else its controller; a pod without a
 * controller is its own workload (kind Pod).
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

/** A workload's name for people, `NAMESPACE/KIND/NAME` with the kind in small letters; `NAMESPACE/POD` of a pod without a controller. */
export function workloadText(pod: Pod): string {
  const { kind, name } = workloadNameOf(pod);
  // Nobody has checked the references of a pod to its controller.
  return kind === "Pod" ? pod.key : printable(`${pod.namespace}/${kind.toLowerCase()}/${name}`);
}

/** Tells workloads apart: one text for all pods of one. */
export function workloadKeyOf(pod: Pod): string {
  const { kind, name } = workloadNameOf(pod);
  return `${pod.namespace}/${kind}/${name}`;
}

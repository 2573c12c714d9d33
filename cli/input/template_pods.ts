import type { Labels, Pod } from "../../objects/model.ts";
import { isFinished } from "../../objects/semantics/policies/address_owner.ts";
import { workloadKeyOf } from "../../objects/workload_name.ts";
import { frozenLabels } from "../../objects/name.ts";
import type { Manifest } from "./manifests.ts";
import { COMPLETION_INDEX, CONTROLLER_LABELS, INJECTED_LABELS } from "./added_labels.ts";

/** Returns the pods that stand for templates, without those whose template a given pod of the same workload shows. */
export function unshownPods(templates: readonly Manifest<Pod>[], pods: readonly Pod[]): readonly Manifest<Pod>[] {
  const known = Map.groupBy(pods, workloadKeyOf);
  return templates.filter(({ object, replicas }) => {
    const ofWorkload = known.get(workloadKeyOf(object)) ?? [];
    return !ofWorkload.some((pod) => (replicas === undefined || pod.name === object.name) && shows(pod, object));
  });
}

/**
 * Returns whether a pod has what its template says; controllers and webhooks add to that. A finished pod shows only the
 * template of a Job: that of any other workload is about to make the next one.
 */
function shows(pod: Pod, { labels, ports, hostNetwork, controller }: Pod): boolean {
  if (isFinished(pod) && controller?.kind !== "Job") return false;
  const isAdded = (key: string): boolean => CONTROLLER_LABELS.includes(key) && key !== COMPLETION_INDEX;
  return (
    pod.hostNetwork === hostNetwork &&
    Object.entries(labels).every(([key, value]) => isAdded(key) || pod.labels[key] === value) &&
    ports.every(({ name, protocol, port }) =>
      pod.ports.some((one) => one.name === name && one.protocol === protocol && one.port === port),
    )
  );
}

/** The effect of templates on the pods that exist. */
export interface RolledOut {
  readonly changed: readonly { readonly before: Manifest<Pod>; readonly after: Manifest<Pod> }[];
  /** Stand-ins for templates that none of these pods shows. */
  readonly added: readonly Manifest<Pod>[];
  /** Pods with a number beyond those of their workload. */
  readonly removed: readonly Manifest<Pod>[];
}

/**
 * Returns the pods of the templates' workloads as if each had been replaced by one of its template: of several templates
 * that with the most of its labels.
 */
export function rollOut(pods: readonly Manifest<Pod>[], templates: readonly Manifest<Pod>[]): RolledOut {
  const ofWorkload = Map.groupBy(templates, ({ object }) => workloadKeyOf(object));
  const ofPod = ({ object }: Manifest<Pod>): readonly Manifest<Pod>[] => ofWorkload.get(workloadKeyOf(object)) ?? [];
  // A workload with more replicas than stand-ins keeps all its pods: nobody knows their names.
  const isLeft = (pod: Manifest<Pod>): boolean =>
    ofPod(pod).every(({ replicas }, _, all) => replicas !== all.length) ||
    ofPod(pod).some(({ object }) => object.name === pod.object.name);
  const changed = pods.filter(isLeft).flatMap((before) => {
    const [first, ...others] = ofPod(before);
    if (first === undefined) return [];
    const count = (one: Manifest<Pod>): number => numberOfEqual(before.object.labels, one.object.labels);
    const template = others.reduce((best, one) => (count(one) > count(best) ? one : best), first);
    return [{ before, after: fromTemplate(before, template) }];
  });
  const after = changed.map((one) => one.after.object);
  return { changed, added: unshownPods(templates, after), removed: pods.filter((one) => !isLeft(one)) };
}

function numberOfEqual(labels: Labels, others: Labels): number {
  return Object.entries(labels).filter(([key, value]) => others[key] === value).length;
}

/** Returns a pod with its template's changes; it retains only those labels of controllers that it already had. */
function fromTemplate(before: Manifest<Pod>, template: Manifest<Pod>): Manifest<Pod> {
  const { hostPorts: _, object: pod, ...place } = before;
  const { labels, annotations, ports, hostNetwork } = template.object;
  const isAdded = ([key]: [string, string]): boolean => CONTROLLER_LABELS.includes(key);
  const own = Object.entries(pod.labels).filter(isAdded);
  const injected = Object.entries(pod.labels).filter(([key]) => INJECTED_LABELS.test(key));
  const others = Object.entries(labels).filter((entry) => !isAdded(entry));
  const object = Object.freeze({
    ...pod,
    labels: frozenLabels([...injected, ...others, ...own]),
    annotations,
    ports,
    hostNetwork,
    addresses: pod.hostNetwork && !hostNetwork ? [] : pod.addresses,
  });
  return { ...place, object, ...(template.hostPorts === undefined ? {} : { hostPorts: template.hostPorts }) };
}

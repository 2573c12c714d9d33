import { COMPLETION_INDEX, CONTROLLER_LABELS } from "./added_labels.ts";
import { attempt } from "../../kernel/error.ts";
import { groupOf } from "../../objects/gate/gate.ts";
import { readNamespacedMetadata } from "../../objects/gate/metadata.ts";
import type { Labels, Pod } from "../../objects/model.ts";
import { frozenLabels } from "../../objects/name.ts";
import { Reader } from "../../objects/gate/reader.ts";
import type { FieldPath } from "../../objects/yaml/documents.ts";
import { at, listAt, membersAt, textAt, textsAt } from "./raw.ts";

/** An object that makes pods from a template, as far as files show it. */
export interface Workload {
  /** Such as `Deployment shop/web`. */
  readonly name: string;
  /** Raw pods that stand for those of the cluster: as many as can differ in their roles towards each other. */
  readonly pods: readonly StandInPod[];
  /** The number of its pods, only where the object states it and each pod has a number. */
  readonly replicas?: number | undefined;
  /** The reason for which the API server would refuse the workload, apart from its template. */
  readonly problem: string | undefined;
}

/** A raw pod, and the name that it gets after the gate has accepted it. */
export interface StandInPod {
  readonly value: unknown;
  readonly name: string;
  /** The place of its template in the workload. */
  readonly template: FieldPath;
}

/** The places of pods' templates in an object, and the number of pods of each. */
interface Templates {
  readonly templates: readonly FieldPath[];
  /** The field with the number of pods at a time; undefined where no field states it. */
  readonly count: readonly string[] | undefined;
  /** The number of pods, up to two, where the field is absent: an autoscaler may write it. */
  readonly usual: 1 | 2;
  /** Whether each pod has a number, by which policies may tell it apart. */
  readonly isNumbered?: true;
  /** Returns the labels that the controller adds to those of the template; for an unpredictable value {@link UNKNOWN}. */
  readonly added?: (name: string, ordinal: number) => Readonly<Record<string, string>>;
}

interface WorkloadKind extends Templates {
  readonly apiVersion: string;
}

/** The fields of a workload that pods depend on beside its templates. */
interface ReadWorkload extends Pick<Pod, "namespace" | "name"> {
  readonly ordinals: readonly number[];
  readonly replicas: number | undefined;
}

const TEMPLATE = ["spec", "template"];
const REPLICAS = ["spec", "replicas"];
/** The kinds of which another workload makes one for each of its revisions. */
const REVISIONS: readonly string[] = ["ReplicaSet", "ReplicationController"];
const MOST_REPLICAS = 2 ** 31 - 1;
/** The most pods of a StatefulSet or an Indexed Job, each with labels of its own, that stand for it. */
const MOST_PODS = 20;

/** The value of a label that a policy may ask for, and that nobody can know before the pod is made. */
const UNKNOWN = "xxxxxxxxxx";

function jobLabels(job: string): Readonly<Record<string, string>> {
  return {
    "job-name": job,
    "batch.kubernetes.io/job-name": job,
    "controller-uid": UNKNOWN,
    "batch.kubernetes.io/controller-uid": UNKNOWN,
  };
}

const WORKLOAD_KINDS: ReadonlyMap<string, WorkloadKind> = new Map<string, WorkloadKind>([
  [
    "Deployment",
    {
      apiVersion: "apps/v1",
      templates: [TEMPLATE],
      count: REPLICAS,
      usual: 2,
      added: () => ({ "pod-template-hash": UNKNOWN }),
    },
  ],
  [
    "StatefulSet",
    {
      apiVersion: "apps/v1",
      templates: [TEMPLATE],
      count: REPLICAS,
      usual: 2,
      isNumbered: true,
      added: (name, ordinal) => ({
        "statefulset.kubernetes.io/pod-name": `${name}-${ordinal}`,
        "apps.kubernetes.io/pod-index": `${ordinal}`,
        "controller-revision-hash": UNKNOWN,
      }),
    },
  ],
  [
    "DaemonSet",
    {
      apiVersion: "apps/v1",
      templates: [TEMPLATE],
      count: undefined,
      usual: 2,
      added: () => ({ "controller-revision-hash": UNKNOWN, "pod-template-generation": UNKNOWN }),
    },
  ],
  ["ReplicaSet", { apiVersion: "apps/v1", templates: [TEMPLATE], count: REPLICAS, usual: 2 }],
  ["ReplicationController", { apiVersion: "v1", templates: [TEMPLATE], count: REPLICAS, usual: 2 }],
  [
    "Job",
    {
      apiVersion: "batch/v1",
      templates: [TEMPLATE],
      count: ["spec", "parallelism"],
      usual: 1,
      added: jobLabels,
    },
  ],
  [
    "CronJob",
    {
      apiVersion: "batch/v1",
      templates: [["spec", "jobTemplate", "spec", "template"]],
      count: ["spec", "jobTemplate", "spec", "parallelism"],
      usual: 1,
      added: (name) => jobLabels(`${name}-${UNKNOWN}`),
    },
  ],
]);

/** Returns the kinds of {@link isWorkloadKind}, each with the version in which it is read. */
export function workloadVersions(): readonly (readonly [kind: string, apiVersion: string])[] {
  return [...WORKLOAD_KINDS].map(([kind, { apiVersion }]) => [kind, apiVersion]);
}

/** Returns whether objects of this kind and version have templates that {@link workloadOf} reads. */
export function isWorkloadKind(apiVersion: string, kind: string): boolean {
  return WORKLOAD_KINDS.get(kind)?.apiVersion === apiVersion;
}

/**
 * Returns the pods that a workload would make, for files that hold no pods.
 *
 * There are two, to show what one pod of a workload may send to another, since a pod always reaches itself. There is
 * one where the object says so, and for a Job or a CronJob. The pods run on an unknown node and have no address; what
 * depends on an address is reported. Pods of a StatefulSet have their real names; others have names that no API server
 * accepts, so that no real pod is mistaken for one of them.
 *
 * @returns undefined for anything but a workload with a template
 */
export function workloadOf(value: unknown): Workload | undefined {
  const kind = textAt(value, "kind") ?? "";
  const apiVersion = textAt(value, "apiVersion") ?? "";
  const found = isWorkloadKind(apiVersion, kind) ? WORKLOAD_KINDS.get(kind) : otherKind(value, apiVersion);
  const known = found === undefined ? undefined : withIndexes(found, value);
  const templates = (known?.templates ?? []).filter((path) => at(value, ...path) !== undefined);
  if (known === undefined || templates.length === 0) return undefined;
  const read = attempt<ReadWorkload | string>(
    () => ({ ...readNamespacedMetadata(new Reader(value, "")), ...ordinalsOf(value, known) }),
    (error) => error.message,
  );
  if (typeof read === "string") return { name: kind, pods: [], problem: `${kind}: ${read}` };
  const { namespace, name, ordinals, replicas } = read;
  if (isOver(value)) return { name: `${kind} ${namespace}/${name}`, pods: [], problem: undefined };
  const isNamed = kind === "StatefulSet";
  const podOf = (path: FieldPath, ordinal: number): StandInPod => {
    const template = at(value, ...path);
    const realName = `${name}-${ordinal}`;
    const raw = {
      apiVersion: "v1",
      kind: "Pod",
      metadata: {
        name: isNamed ? realName : "stand-in",
        namespace,
        labels: withLabels(at(template, "metadata", "labels"), known.added?.(name, ordinal)),
        annotations: at(template, "metadata", "annotations"),
        ownerReferences: [{ apiVersion, kind, name, controller: true }],
      },
      spec: isMachine(template) ? {} : at(template, "spec"),
      status: { phase: "Running" },
    };
    return { value: raw, name: isNamed ? realName : standInName(name, kind, ordinal), template: path };
  };
  const pods = templates.flatMap((path, i) => ordinals.map((one) => podOf(path, one + i * ordinals.length)));
  return { name: `${kind} ${namespace}/${name}`, pods, replicas: isNamed ? replicas : undefined, problem: undefined };
}

/**
 * Returns whether a workload that another one controls is over: an older ReplicaSet of a Deployment, a Job that has
 * ended. Others that some controller has scaled to zero, as Knative does with Deployments, get pods again.
 */
function isOver(value: unknown): boolean {
  const kind = textAt(value, "kind") ?? "";
  const isOwned = listAt(value, "metadata", "ownerReferences").some((one) => at(one, "controller") === true);
  const isEnd = (one: unknown): boolean => ["Complete", "Failed"].includes(textAt(one, "type") ?? "");
  if (kind === "Job")
    return isOwned && listAt(value, "status", "conditions").some((one) => isEnd(one) && at(one, "status") === "True");
  return isOwned && REVISIONS.includes(kind) && at(value, ...REPLICAS) === 0;
}

/** Returns the templates, of an Indexed Job with a pod for each of its indexes, which have labels of their own. */
function withIndexes(known: Templates, value: unknown): Templates {
  const job = known.count?.slice(0, -1) ?? [];
  if (known.count?.at(-1) !== "parallelism" || textAt(value, ...job, "completionMode") !== "Indexed") return known;
  const added: Templates["added"] = (name, ordinal) => ({
    ...known.added?.(name, ordinal),
    [COMPLETION_INDEX]: `${ordinal}`,
  });
  return { ...known, count: [...job, "completions"], isNumbered: true, added };
}

/** Others, such as Spark's operator, also have groups that end like these. */
const OWN_GROUPS =
  /^(?:admissionregistration|apiextensions|apiregistration|authentication|certificates|coordination|discovery|events|networking|node|resource|scheduling|storage|storagemigration|(?:.+\.)?(?:apiserver|authorization|metrics|networking|storage))\.k8s\.io$/;

/** Returns whether a group of the API is one of Kubernetes' own, in which nobody else defines kinds. */
export function isOwnGroup(apiVersion: string): boolean {
  const group = groupOf(apiVersion);
  return !group.includes(".") || OWN_GROUPS.test(group);
}

/** Kyverno's policies have patterns that look like templates. */
const PATTERNS = "kyverno.io";

/**
 * Returns where an object of other makers has templates of pods: in spec.template, as Rollouts and Services of Knative
 * have it, or in fields with such a name below spec, as JobSets and RayClusters have several. The pod of a
 * VirtualMachine has the labels of its template, and that of a VirtualMachineInstance those of the object itself.
 */
function otherKind(value: unknown, apiVersion: string): Templates | undefined {
  if (isOwnGroup(apiVersion) || groupOf(apiVersion) === PATTERNS) return undefined;
  if (isMachine(value)) return { templates: [[]], count: undefined, usual: 1 };
  const templates = templatesIn(at(value, "spec"), ["spec"]);
  const [first = []] = templates;
  const isMachines = isMachine(at(value, ...first));
  return { templates, count: first.length === TEMPLATE.length ? REPLICAS : undefined, usual: isMachines ? 1 : 2 };
}

/** Returns the paths of templates below a value, but not those in whole objects that it contains. */
function templatesIn(value: unknown, path: FieldPath): readonly FieldPath[] {
  const members = Array.isArray(value) ? [...value.entries()] : membersAt(value);
  return members.flatMap(([key, one]: readonly [string | number, unknown]): readonly FieldPath[] => {
    const place = [...path, key];
    const isTemplate = typeof key === "string" && /template$/i.test(key);
    if (isTemplate && (listAt(one, "spec", "containers").length > 0 || isMachine(one))) return [place];
    return textAt(one, "apiVersion") === undefined ? templatesIn(one, place) : [];
  });
}

function isMachine(template: unknown): boolean {
  return at(template, "spec", "domain") !== undefined;
}

/** Returns the labels of a workload's selector, without those of controllers; undefined without any. */
export function selectorOf(workload: unknown): Labels | undefined {
  const selector = at(workload, "spec", "selector", "matchLabels") ?? at(workload, "spec", "selector");
  const labels = textsAt(selector).filter(([key]) => !CONTROLLER_LABELS.includes(key));
  return labels.length === 0 ? undefined : frozenLabels(labels);
}

/** Returns the pod with the selector of its controller; as it is without one. */
export function withSelector(pod: Pod, selector: Labels | undefined): Pod {
  const { controller } = pod;
  if (controller === undefined || selector === undefined) return pod;
  return Object.freeze({ ...pod, controller: Object.freeze({ ...controller, selector }) });
}

/** Returns the pod under another name. */
export function renamedPod(pod: Pod, name: string): Pod {
  return Object.freeze({ ...pod, name, key: `${pod.namespace}/${name}` });
}

/** Returns a name that no pod can have: names of objects do not contain `_`. */
export function standInName(workload: string, kind: string, ordinal: number): string {
  return `${workload}_${kind.toLowerCase()}_${ordinal}`;
}

/** Returns the pods' ordinals and number. @throws DrawbridgeError ERR_OBJECT for what the API server would refuse */
function ordinalsOf(
  value: unknown,
  { count, usual, isNumbered }: Templates,
): Pick<ReadWorkload, "ordinals" | "replicas"> {
  const start = numberAt(value, ["spec", "ordinals", "start"]) ?? 0;
  const given = count === undefined ? undefined : numberAt(value, count);
  // A workload with zero replicas waits for an autoscaler.
  const number = given === undefined || given === 0 ? usual : Math.min(given, isNumbered === true ? MOST_PODS : 2);
  const ordinals = Array.from({ length: number }, (_, i) => start + i);
  return { ordinals, replicas: isNumbered === true && given !== 0 ? given : undefined };
}

function numberAt(value: unknown, path: readonly string[]): number | undefined {
  let reader = new Reader(value, "");
  for (const step of path.slice(0, -1)) reader = reader.object(step);
  return reader.optionalInteger(path.at(-1) ?? "", 0, MOST_REPLICAS);
}

/** Adds labels to a map of labels; the gate refuses anything else. */
function withLabels(labels: unknown, added: Readonly<Record<string, string>> | undefined): unknown {
  if (added === undefined || (labels !== undefined && typeof labels !== "object") || Array.isArray(labels))
    return labels;
  return { ...labels, ...added };
}

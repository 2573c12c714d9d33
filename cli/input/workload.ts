import { at, textAt } from "./raw.ts";

/** What makes pods of a template, as far as files show it. */
export interface Workload {
  readonly kind: string;
  readonly namespace: string;
  readonly name: string;
  /** Raw pods that stand for those the cluster would make: as many as there can be different roles between them. */
  readonly pods: readonly unknown[];
}

/** Where a kind has the template of its pods, and whether it can have several at a time. */
interface WorkloadKind {
  readonly apiVersions: readonly string[];
  readonly template: readonly string[];
  readonly isSingle: boolean;
  /** The labels that its controller adds to those of the template, as far as they can be foretold. */
  readonly added?: (name: string, ordinal: number) => Readonly<Record<string, string>>;
}

const TEMPLATE = ["spec", "template"];

/** Labels that controllers put on pods beside those of the template. */
export const CONTROLLER_LABELS: readonly string[] = [
  "pod-template-hash",
  "controller-revision-hash",
  "pod-template-generation",
  "statefulset.kubernetes.io/pod-name",
  "apps.kubernetes.io/pod-index",
  "job-name",
  "controller-uid",
  "batch.kubernetes.io/job-name",
  "batch.kubernetes.io/controller-uid",
  "batch.kubernetes.io/job-completion-index",
];

const WORKLOAD_KINDS: ReadonlyMap<string, WorkloadKind> = new Map<string, WorkloadKind>([
  ["Deployment", { apiVersions: ["apps/v1"], template: TEMPLATE, isSingle: false }],
  [
    "StatefulSet",
    {
      apiVersions: ["apps/v1"],
      template: TEMPLATE,
      isSingle: false,
      added: (name, ordinal) => ({
        "statefulset.kubernetes.io/pod-name": `${name}-${ordinal}`,
        "apps.kubernetes.io/pod-index": `${ordinal}`,
      }),
    },
  ],
  ["DaemonSet", { apiVersions: ["apps/v1"], template: TEMPLATE, isSingle: false }],
  ["ReplicaSet", { apiVersions: ["apps/v1"], template: TEMPLATE, isSingle: false }],
  ["ReplicationController", { apiVersions: ["v1"], template: TEMPLATE, isSingle: false }],
  [
    "Job",
    {
      apiVersions: ["batch/v1"],
      template: TEMPLATE,
      isSingle: true,
      added: (name) => ({ "job-name": name, "batch.kubernetes.io/job-name": name }),
    },
  ],
  ["CronJob", { apiVersions: ["batch/v1"], template: ["spec", "jobTemplate", "spec", "template"], isSingle: true }],
]);

/**
 * The pods a workload would make, for files that hold no pods.
 *
 * There are two, `NAME-0` and `NAME-1`, since a pod always reaches itself and what one pod of a workload may send to
 * another would else be nowhere to see; of a Job or a CronJob one. They run, on no node that is known, and have no
 * address: what depends on it is told. Undefined for what is no workload or has no template.
 */
export function workloadOf(value: unknown): Workload | undefined {
  const kind = textAt(value, "kind") ?? "";
  const apiVersion = textAt(value, "apiVersion") ?? "";
  const known = WORKLOAD_KINDS.get(kind);
  if (known?.apiVersions.includes(apiVersion) !== true) return undefined;
  const name = textAt(value, "metadata", "name");
  const namespace = at(value, "metadata", "namespace") ?? "default";
  const template = at(value, ...known.template);
  if (name === undefined || typeof namespace !== "string" || template === undefined) return undefined;
  const labels = at(template, "metadata", "labels");
  const ordinals = known.isSingle ? [0] : [0, 1];
  const pods = ordinals.map((ordinal) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: `${name}-${ordinal}`,
      namespace,
      labels: withLabels(labels, known.added?.(name, ordinal)),
      annotations: at(template, "metadata", "annotations"),
      ownerReferences: [{ apiVersion, kind, name, controller: true }],
    },
    spec: at(template, "spec"),
    status: { phase: "Running" },
  }));
  return { kind, namespace, name, pods };
}

/** What is no map of labels is the gate's to refuse. */
function withLabels(labels: unknown, added: Readonly<Record<string, string>> | undefined): unknown {
  if (added === undefined || (labels !== undefined && typeof labels !== "object") || Array.isArray(labels))
    return labels;
  return { ...labels, ...added };
}

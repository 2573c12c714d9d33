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
}

const TEMPLATE = ["spec", "template"];

const WORKLOAD_KINDS: ReadonlyMap<string, WorkloadKind> = new Map([
  ["Deployment", { apiVersions: ["apps/v1"], template: TEMPLATE, isSingle: false }],
  ["StatefulSet", { apiVersions: ["apps/v1"], template: TEMPLATE, isSingle: false }],
  ["DaemonSet", { apiVersions: ["apps/v1"], template: TEMPLATE, isSingle: false }],
  ["ReplicaSet", { apiVersions: ["apps/v1"], template: TEMPLATE, isSingle: false }],
  ["ReplicationController", { apiVersions: ["v1"], template: TEMPLATE, isSingle: false }],
  ["Job", { apiVersions: ["batch/v1"], template: TEMPLATE, isSingle: true }],
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
  const kind = member(value, "kind");
  const known = typeof kind === "string" ? WORKLOAD_KINDS.get(kind) : undefined;
  const metadata = member(value, "metadata");
  const name = member(metadata, "name");
  const namespace = member(metadata, "namespace") ?? "default";
  const apiVersion = member(value, "apiVersion");
  if (known === undefined || typeof kind !== "string" || typeof name !== "string") return undefined;
  if (typeof namespace !== "string" || !known.apiVersions.some((version) => version === apiVersion)) return undefined;
  const template = known.template.reduce(member, value);
  if (template === undefined) return undefined;
  const names = known.isSingle ? [`${name}-0`] : [`${name}-0`, `${name}-1`];
  const pods = names.map((podName) => ({
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: podName,
      namespace,
      labels: member(member(template, "metadata"), "labels"),
      annotations: member(member(template, "metadata"), "annotations"),
      ownerReferences: [{ apiVersion, kind, name, controller: true }],
    },
    spec: member(template, "spec"),
    status: { phase: "Running" },
  }));
  return { kind, namespace, name, pods };
}

function member(value: unknown, key: string): unknown {
  if (typeof value !== "object" || value === null || !Object.hasOwn(value, key)) return undefined;
  return new Map<string, unknown>(Object.entries(value)).get(key) ?? undefined;
}

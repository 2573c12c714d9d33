import { nameOf } from "../../policyd/cluster/gate.ts";
import type { ClusterObject } from "../../policyd/cluster/model.ts";
import type { FieldPath } from "../../policyd/source/documents.ts";
import { readFileObjects } from "./files/read_file.ts";
import type { HostPort } from "./host_ports.ts";
import type { ManifestFileSystem } from "./manifest_files.ts";
import { manifestFiles } from "./manifest_files.ts";
import { withStandIns } from "./objects/stand_in_pods.ts";
import type { Taken } from "./objects/take.ts";
import { DEFAULT_NAMESPACE, takeObject } from "./objects/take.ts";

/** An object out of a file. */
export interface Manifest<T extends ClusterObject = ClusterObject> {
  readonly object: T;
  readonly file: string;
  /** Of the object; of one of its fields {@link lineOf}. */
  readonly line: number;
  readonly lineOf: (path: FieldPath) => number;
  /** As it stands in the file; only of kinds of which there are few (`KEPT` of objects/take.ts). */
  readonly source: unknown;
  /** Of a pod that has any. */
  readonly hostPorts?: readonly HostPort[];
  /** Of a pod that stands for a template, as `Deployment shop/web`. */
  readonly workload?: string;
}

/** What the API server would refuse, or what keeps a file from being understood. */
export interface ManifestProblem {
  readonly file: string;
  readonly line: number;
  readonly message: string;
  /** The object it is about, as it stands in the file; undefined where the file itself is the problem. */
  readonly source?: unknown;
  /** The objects to write instead, as YAML. */
  readonly replacement?: string;
}

/** An AdminNetworkPolicy or BaselineAdminNetworkPolicy, which ClusterNetworkPolicy has replaced. Also a problem. */
export interface ForeignPolicy {
  readonly source: unknown;
  /** As ClusterNetworkPolicies, in YAML; undefined where it says something that they cannot. */
  readonly replacement: string | undefined;
  readonly file: string;
  readonly line: number;
}

/** What files say. */
export interface Manifests {
  /** Each object once; pods of workloads that have none in the files included. */
  readonly manifests: readonly Manifest[];
  /** Anything here means that the rest is not the whole truth. */
  readonly problems: readonly ManifestProblem[];
  /** What a server takes and nobody enforces here: rules with experimental peers, which fail closed. */
  readonly remarks: readonly ManifestProblem[];
  /** Objects, or parts of them, that cannot be read and on which no answer depends. */
  readonly leftOut: readonly ManifestProblem[];
  readonly foreignPolicies: readonly ForeignPolicy[];
  /** How many objects of other kinds were passed over. */
  readonly ignored: number;
}

/**
 * Reads manifests as `kubectl apply -f` would send them: with the API server's defaults and its judgement.
 *
 * A problem of one object does not hide those of others. What is read besides is as complete as it can be, and must not
 * be relied on while there are problems: a policy that is missing opens what it closes.
 *
 * @param paths as of {@link manifestFiles}
 * @param namespace of objects that name none
 * @throws DrawbridgeError ERR_INPUT for paths that lead nowhere
 */
export function readManifests(
  files: ManifestFileSystem,
  paths: readonly string[],
  isRecursive: boolean,
  namespace = DEFAULT_NAMESPACE,
): Manifests {
  const leftOut: ManifestProblem[] = [];
  const taken: Taken[] = [];
  for (const file of manifestFiles(files, paths, isRecursive)) {
    const read = readFileObjects(files, file, (object) => void taken.push(takeObject(object, file, namespace)));
    leftOut.push(...read.leftOut);
    if (read.problem !== undefined) taken.push({ type: "problems", problems: [read.problem] });
  }
  const found = taken.flatMap((one) => (one.type === "manifests" ? [one] : []));
  const written = found.filter(({ isTemplate }) => !isTemplate).flatMap(({ manifests }) => manifests);
  const templates = found.filter(({ isTemplate }) => isTemplate).flatMap(({ manifests }) => manifests);
  const { unique, problems } = withoutDoubles(withStandIns(written, templates));
  return {
    manifests: unique,
    problems: [...taken.flatMap((one) => (one.type === "problems" ? one.problems : [])), ...problems],
    remarks: found.flatMap(({ remarks }) => remarks),
    leftOut,
    foreignPolicies: taken.flatMap((one) =>
      one.type === "problems" && one.foreign !== undefined ? [one.foreign] : [],
    ),
    ignored: taken.filter(({ type }) => type === "ignored").length,
  };
}

function withoutDoubles(manifests: readonly Manifest[]): {
  readonly unique: readonly Manifest[];
  readonly problems: readonly ManifestProblem[];
} {
  const unique = new Map<string, Manifest>();
  // By their texts: a workload that stands twice has several pods.
  const problems = new Map<string, ManifestProblem>();
  for (const manifest of manifests) {
    const { file, line, workload } = manifest;
    const name = nameOf(manifest.object);
    const first = unique.get(name);
    if (first === undefined) unique.set(name, manifest);
    else {
      const message = `${workload ?? name}: also in ${first.file}:${first.line}; expected once`;
      problems.set(`${file}:${line}: ${message}`, { file, line, message });
    }
  }
  return { unique: [...unique.values()], problems: [...problems.values()] };
}

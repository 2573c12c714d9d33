import { nameOf } from "../../policyd/cluster/gate.ts";
import type { ClusterObject } from "../../policyd/cluster/model.ts";
import type { FieldPath } from "../../policyd/source/documents.ts";
import type { SkippedFile } from "./files/not_manifest.ts";
import { readFileObjects } from "./files/read_file.ts";
import type { HostPort } from "./host_ports.ts";
import type { ManifestFileSystem } from "./manifest_files.ts";
import { manifestFiles } from "./manifest_files.ts";
import { withStandIns } from "./objects/stand_in_pods.ts";
import { DEFAULT_NAMESPACE } from "./objects/take.ts";
import type { PlacedWayObject } from "../ways_in/way_object.ts";
import type { Reading } from "./reading.ts";
import { excludes } from "./reading.ts";

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

/** What was read, for people. */
export interface ReadingReport {
  /** Files with manifests. */
  readonly files: readonly string[];
  /** Objects as they are written: a workload is one. */
  readonly objects: number;
  /** The kinds of the objects on which no answer depends, with their numbers. */
  readonly ignored: ReadonlyMap<string, number>;
  readonly skipped: readonly SkippedFile[];
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
  /** Ingresses, routes and what belongs to them; only where they were asked for. */
  readonly wayObjects: readonly PlacedWayObject[];
  /** What was read, and what was not. */
  readonly reading: ReadingReport;
}

/**
 * Reads manifests as `kubectl apply -f` would send them: with the API server's defaults and its judgement.
 *
 * A problem of one object does not hide those of others. What is read besides is as complete as it can be, and must not
 * be relied on while there are problems: a policy that is missing opens what it closes.
 *
 * @param paths as of {@link manifestFiles}
 * @param namespace of objects that name none
 * @param reading how; `quiet` is the caller's
 * @throws DrawbridgeError ERR_INPUT for paths that lead nowhere
 */
export function readManifests(
  files: ManifestFileSystem,
  paths: readonly string[],
  isRecursive: boolean,
  namespace = DEFAULT_NAMESPACE,
  reading: Reading = {},
): Manifests {
  const all = manifestFiles(files, paths, isRecursive).map((file) => {
    const excluded = (reading.exclude ?? []).some((pattern) => excludes(pattern, file));
    if (excluded) return { file, taken: [], leftOut: [], skipped: { file, reason: "excluded" } };
    return { file, ...readFileObjects(files, { file, namespace, ...reading }) };
  });
  const taken = all.flatMap((one) => one.taken);
  const found = taken.flatMap((one) => (one.type === "manifests" ? [one] : []));
  const written = found.filter(({ isTemplate }) => !isTemplate).flatMap(({ manifests }) => manifests);
  const templates = found.filter(({ isTemplate }) => isTemplate).flatMap(({ manifests }) => manifests);
  const { unique, problems } = withoutDoubles(withStandIns(written, templates));
  return {
    manifests: unique,
    problems: [...taken.flatMap((one) => (one.type === "problems" ? one.problems : [])), ...problems],
    remarks: found.flatMap(({ remarks }) => remarks),
    leftOut: [
      ...all.flatMap(({ leftOut }) => leftOut),
      ...taken.flatMap((one) => (one.type === "unsupported" || one.type === "no way in" ? [one.leftOut] : [])),
    ],
    foreignPolicies: taken.flatMap((one) =>
      one.type === "problems" && one.foreign !== undefined ? [one.foreign] : [],
    ),
    wayObjects: taken.flatMap((one) => (one.type === "way in" ? [one.placed] : [])),
    reading: {
      files: all.filter(({ skipped }) => skipped === undefined).map(({ file }) => file),
      objects: taken.filter(({ type }) => type === "manifests" || type === "way in").length,
      ignored: countsOf(taken.flatMap((one) => (one.type === "ignored" ? [one.kind] : []))),
      skipped: all.flatMap(({ skipped }) => skipped ?? []),
    },
  };
}

function countsOf(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
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

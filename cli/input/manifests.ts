import { contentText } from "../output/text.ts";
import { nameOf } from "../../objects/gate/gate.ts";
import type { ClusterObject, Pod } from "../../objects/model.ts";
import type { FieldPath } from "../../objects/yaml/documents.ts";
import type { SkippedFile } from "./files/not_manifest.ts";
import { readFileObjects } from "./files/read_file.ts";
import type { HostPort } from "./host_ports.ts";
import { manifestFiles, type ManifestFileSystem } from "./manifest_files.ts";
import { DEFAULT_NAMESPACE } from "./objects/take.ts";
import { MIRROR } from "./objects/endpoints.ts";
import { membersAt } from "./raw.ts";
import type { PlacedWayObject } from "./ways/way_object.ts";
import { excludes, type Reading } from "./reading.ts";
import { workloadKeyOf } from "../../objects/workload_name.ts";
import { unshownPods } from "./template_pods.ts";
import { renamedPod, standInName, withSelector } from "./workload.ts";
import { serviceKeyOf } from "../../objects/service_key.ts";

/** An object from a file. */
export interface Manifest<T extends ClusterObject = ClusterObject> {
  readonly object: T;
  readonly file: string;
  /** The line of the object; {@link lineOf} returns that of a field. */
  readonly line: number;
  readonly lineOf: (path: FieldPath) => number;
  /** The object as the file has it; only for kinds with few objects (`KEPT` in objects/take.ts). */
  readonly source: unknown;
  /** Present for a pod with host ports. */
  readonly hostPorts?: readonly HostPort[];
  /** The controller that writes an EndpointSlice; undefined where none is named. */
  readonly manager?: string | undefined;
  /** The workload, as `Deployment shop/web`, of a pod that stands for a template. */
  readonly workload?: string;
  /** The stated number of pods, where each pod has a number: only a pod of the same name shows the template then. */
  readonly replicas?: number;
}

/** Something that the API server would refuse, or that makes a file unreadable. */
export interface ManifestProblem {
  readonly file: string;
  readonly line: number;
  readonly message: string;
  /** The object with the problem, as the file has it; undefined where the file itself is the problem. */
  readonly source?: unknown;
  /** The objects to write instead, as YAML. */
  readonly replacement?: string;
}

/** The counts for the line that says what was read. */
export interface ReadingReport {
  /** Files with manifests. */
  readonly files: readonly string[];
  /** Objects as the files have them: a workload counts as one. */
  readonly objects: number;
  /** The kinds on which no answer depends, each with its number of objects. */
  readonly ignored: ReadonlyMap<string, number>;
  /** The kinds of other makers, which may stand for pods or policies, each with its number of objects. */
  readonly unread: ReadonlyMap<string, number>;
  readonly skipped: readonly SkippedFile[];
}

/** The contents of files or of a cluster. */
export interface Manifests {
  /** Each object once, including pods for workloads that have none in the files. */
  readonly manifests: readonly Manifest[];
  /** With any problem, the manifests are incomplete. */
  readonly problems: readonly ManifestProblem[];
  /** Fields that a server accepts but that are not enforced here: rules with experimental peers, which fail closed. */
  readonly remarks: readonly ManifestProblem[];
  /** Objects, or parts of them, that cannot be read but on which no answer depends. */
  readonly omitted: readonly ManifestProblem[];
  /** Ingresses, routes and the objects that belong to them; only where they were asked for. */
  readonly wayObjects: readonly PlacedWayObject[];
  readonly reading: ReadingReport;
}

/**
 * Reads manifests as `kubectl apply -f` would send them, with the API server's defaults and validation.
 *
 * A problem of one object does not hide those of others. The rest is as complete as possible, but must not be relied on
 * while there are problems: without a policy, what it closes looks open.
 *
 * @param paths as in {@link manifestFiles}
 * @param namespace for objects that name none
 * @param reading how to read; `quiet` is up to the caller
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
    if (excluded) return { file, taken: [], omitted: [], skipped: { file, reason: "excluded" } };
    return { file, ...readFileObjects(files, { file, namespace, ...reading }) };
  });
  const taken = all.flatMap((one) => one.taken);
  const found = taken.flatMap((one) => (one.type === "manifests" ? [one] : []));
  const written = withoutUselessMirrors(
    found.filter(({ isTemplate }) => !isTemplate).flatMap(({ manifests }) => manifests),
  );
  const templates = found.filter(({ isTemplate }) => isTemplate).flatMap(({ manifests }) => manifests.filter(isPod));
  const { unique, problems, repeated } = withoutDoubles(withStandInPods(written, templates));
  return {
    manifests: unique,
    problems: [...taken.flatMap((one) => (one.type === "problems" ? one.problems : [])), ...problems],
    remarks: found.flatMap(({ remarks }) => remarks),
    omitted: [
      ...all.flatMap(({ omitted }) => omitted),
      ...repeated,
      ...taken.flatMap((one) => (one.type === "unsupported" || one.type === "no way in" ? [one.omitted] : [])),
    ],
    wayObjects: taken.flatMap((one) => (one.type === "way in" ? [one.placed] : [])),
    reading: {
      files: all.filter(({ skipped }) => skipped === undefined).map(({ file }) => file),
      objects: taken.filter(({ type }) => type === "manifests" || type === "way in").length,
      ignored: countsOf(taken.flatMap((one) => (one.type === "ignored" && one.isOwn ? [one.kind] : []))),
      unread: countsOf(taken.flatMap((one) => (one.type === "ignored" && !one.isOwn ? [one.kind] : []))),
      skipped: all.flatMap(({ skipped }) => skipped ?? []),
    },
  };
}

/** Returns the objects without mirrors of Endpoints whose Service has a selector: its pods are its endpoints. */
function withoutUselessMirrors(manifests: readonly Manifest[]): readonly Manifest[] {
  if (!manifests.some(({ manager }) => manager === MIRROR)) return manifests;
  const selecting = manifests.flatMap(({ object, source }) =>
    object.kind === "Service" && membersAt(source, "spec", "selector").length > 0 ? [object.key] : [],
  );
  return manifests.filter(({ object, manager }) => {
    const service = object.kind === "EndpointSlice" ? serviceKeyOf(object) : undefined;
    return manager !== MIRROR || !selecting.includes(service ?? "");
  });
}

function countsOf(names: readonly string[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

function withoutDoubles(manifests: readonly Manifest[]): {
  readonly unique: readonly Manifest[];
  readonly problems: readonly ManifestProblem[];
  /** Notes about objects that occur again with the same content, which kubectl takes, too. */
  readonly repeated: readonly ManifestProblem[];
} {
  const unique = new Map<string, Manifest>();
  // The message is the key: a workload that occurs twice has several pods.
  const problems = new Map<string, ManifestProblem>();
  const repeated = new Map<string, ManifestProblem>();
  for (const manifest of manifests) {
    const { file, line, workload } = manifest;
    const name = nameOf(manifest.object);
    const first = unique.get(name);
    if (first === undefined) unique.set(name, manifest);
    else {
      const also = `${workload ?? name}: also in ${first.file}:${first.line}`;
      const isSame = contentOf(manifest) === contentOf(first);
      const what = workload === undefined ? "content" : "pods";
      const message = isSame ? `${also} with the same ${what}, and so read once` : `${also}; expected once`;
      (isSame ? repeated : problems).set(`${file}:${line}: ${message}`, { file, line, message });
    }
  }
  return { unique: [...unique.values()], problems: [...problems.values()], repeated: [...repeated.values()] };
}

/** Returns a text that only objects with equal content share. */
function contentOf({ object, source, hostPorts }: Manifest): string {
  return contentText([object, source, hostPorts]);
}

/**
 * Returns written objects, pods with the selectors of their workloads, and pods that stand for templates that no written
 * pod shows.
 */
function withStandInPods(written: readonly Manifest[], templates: readonly Manifest<Pod>[]): readonly Manifest[] {
  const selectors = new Map(templates.map(({ object }) => [workloadKeyOf(object), object.controller?.selector]));
  const found = written.map((manifest) =>
    isPod(manifest)
      ? { ...manifest, object: withSelector(manifest.object, selectors.get(workloadKeyOf(manifest.object))) }
      : manifest,
  );
  const pods = written.filter(isPod).map(({ object }) => object);
  return [...found, ...withFreeNames(written, unshownPods(templates, pods))];
}

/** Returns whether an object is a pod. */
export function isPod(manifest: Manifest): manifest is Manifest<Pod> {
  return manifest.object.kind === "Pod";
}

/** Renames pods with a taken name. A StatefulSet's pod has its real name, unless another workload's pod has it. */
function withFreeNames(written: readonly Manifest[], templates: readonly Manifest<Pod>[]): readonly Manifest[] {
  const taken = new Set(written.map(({ object }) => nameOf(object)));
  return templates.map((manifest): Manifest => {
    const { object } = manifest;
    if (object.controller === undefined || !taken.has(nameOf(object))) return manifest;
    const { kind, name } = object.controller;
    const ordinal = Number(object.name.slice(name.length + 1));
    return { ...manifest, object: renamedPod(object, standInName(name, kind, ordinal)) };
  });
}

import { DrawbridgeError } from "../../kernel/error.ts";
import { judge, nameOf } from "../../policyd/cluster/gate.ts";
import type { ClusterObject, Pod } from "../../policyd/cluster/model.ts";
import type { FieldPath, LocatedObject } from "../../policyd/source/documents.ts";
import { asClusterNetworkPolicies } from "./admin_policy.ts";
import { workloadKeyOf } from "../cluster/workload_name.ts";
import { fieldPathOf } from "./field_path.ts";
import type { HostPort } from "./host_ports.ts";
import { hostPortsOf } from "./host_ports.ts";
import type { ManifestFileSystem } from "./manifest_files.ts";
import { manifestFiles } from "./manifest_files.ts";
import { readManifestObjects } from "./manifest_objects.ts";
import { wantedProblem } from "./service_source.ts";
import { workloadOf } from "./workload.ts";

/** An object out of a file. */
export interface Manifest<T extends ClusterObject = ClusterObject> {
  readonly object: T;
  readonly file: string;
  /** Of the object; of one of its fields {@link lineOf}. */
  readonly line: number;
  readonly lineOf: (path: FieldPath) => number;
  /** As it stands in the file; only of kinds of which there are few (see {@link KEPT}). */
  readonly source: unknown;
  /** Of a pod that has any. */
  readonly hostPorts?: readonly HostPort[];
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
  /** Of a running cluster: objects, or parts of them, that are no policies and cannot be used. */
  readonly leftOut: readonly ManifestProblem[];
  readonly foreignPolicies: readonly ForeignPolicy[];
  /** How many objects of other kinds were passed over. */
  readonly ignored: number;
}

/** Their source and the lines of their fields are kept; of pods, slices and nodes there may be ten thousands. */
export const KEPT: ReadonlySet<string> = new Set(["Namespace", "Service", "NetworkPolicy", "ClusterNetworkPolicy"]);
/** Of objects that name none, as the gate has it. */
export const DEFAULT_NAMESPACE = "default";
/** White space before the first character of a file, at most. */
const LONGEST_LEAD = 4096;
/** U+FEFF in UTF-8. */
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];
const REPLACED_POLICIES = "policy.networking.k8s.io/v1alpha1";

/** What one object of a file came to. */
type Taken =
  | {
      readonly type: "manifests";
      readonly manifests: readonly Manifest[];
      readonly isTemplate: boolean;
      readonly remarks: readonly ManifestProblem[];
    }
  | { readonly type: "problems"; readonly problems: readonly ManifestProblem[]; readonly foreign?: ForeignPolicy }
  | { readonly type: "ignored" };

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
  const taken = manifestFiles(files, paths, isRecursive).flatMap((file) => readFile(files, file, namespace));
  const found = taken.flatMap((one) => (one.type === "manifests" ? [one] : []));
  const written = found.filter(({ isTemplate }) => !isTemplate).flatMap(({ manifests }) => manifests);
  const templates = found.filter(({ isTemplate }) => isTemplate).flatMap(({ manifests }) => manifests);
  const { unique, problems } = withoutDoubles(withFreeNames(written, withoutPods(templates, written)));
  return {
    manifests: unique,
    problems: [...taken.flatMap((one) => (one.type === "problems" ? one.problems : [])), ...problems],
    remarks: found.flatMap(({ remarks }) => remarks),
    leftOut: [],
    foreignPolicies: taken.flatMap((one) =>
      one.type === "problems" && one.foreign !== undefined ? [one.foreign] : [],
    ),
    ignored: taken.filter(({ type }) => type === "ignored").length,
  };
}

function readFile(files: ManifestFileSystem, file: string, namespace: string): readonly Taken[] {
  const taken: Taken[] = [];
  try {
    const { format, chunks } = formatOf(file, withoutMark(files.read(file)));
    readManifestObjects(chunks, format, (object) => void taken.push(...take(placedIn(namespace, object), file)));
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    const [, line = "1", message = error.message] = /^line (\d+): (.*)$/s.exec(error.message) ?? [];
    taken.push({ type: "problems", problems: [{ file, line: Number(line), message }] });
  }
  return taken;
}

/** As kubectl sends it; what has no namespaces ignores the field. */
function placedIn(namespace: string, located: LocatedObject): LocatedObject {
  const { value } = located;
  if (namespace === DEFAULT_NAMESPACE || !isMembers(value) || !isMembers(value["metadata"])) return located;
  const { metadata } = value;
  return metadata["namespace"] ? located : { ...located, value: { ...value, metadata: { ...metadata, namespace } } };
}

function isMembers(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function take(located: LocatedObject, file: string): readonly Taken[] {
  const workload = workloadOf(located.value);
  if (workload === undefined) return [takeObject(located.value, located, file, false)];
  return workload.pods.map((pod) => takeObject(pod, located, file, true));
}

function takeObject(value: unknown, located: LocatedObject, file: string, isTemplate: boolean): Taken {
  const line = located.lineOf([]);
  const verdict = judge(value);
  if (verdict.type === "ignored") return verdict;
  const messages =
    verdict.type === "refused" ? [verdict.problem] : [...verdict.problems, ...unread(verdict.object, value)];
  // The fields of a template's pods are elsewhere in the file.
  const lineFor = (message: string): number => (isTemplate ? line : located.lineOf(fieldPathOf(message)));
  const told = messages.map((message): ManifestProblem => ({ file, line: lineFor(message), message, source: value }));
  if (verdict.type === "refused" || !messages.every(isExperimental)) {
    // The daemon goes on without the part; here nothing goes on.
    const problems = told.map((one) => ({ ...one, message: one.message.replace(/ \([^()]+\)$/, "") }));
    if (!isReplacedPolicy(value)) return { type: "problems", problems };
    const replacement = asClusterNetworkPolicies(value);
    return {
      type: "problems",
      problems: replacement === undefined ? problems : problems.map((one) => ({ ...one, replacement })),
      foreign: { source: value, file, line, replacement },
    };
  }
  const { object } = verdict;
  const isKept = KEPT.has(object.kind);
  const lineOf = isKept ? (path: FieldPath) => located.lineOf(path) : () => line;
  const manifest: Manifest = {
    object,
    file,
    line,
    lineOf,
    source: isKept ? value : undefined,
    ...withHostPorts(object, value),
  };
  return { type: "manifests", manifests: [manifest], isTemplate, remarks: told };
}

/** The host ports of a pod that has any. */
export function withHostPorts({ kind }: ClusterObject, value: unknown): Pick<Manifest, "hostPorts"> {
  const hostPorts = kind === "Pod" ? hostPortsOf(value) : [];
  return hostPorts.length === 0 ? {} : { hostPorts };
}

/** What the daemon does not read of an object, and the commands do. */
function unread(object: ClusterObject, value: unknown): readonly string[] {
  const problem = object.kind === "Service" && object.type !== "ExternalName" ? wantedProblem(value) : undefined;
  return problem === undefined ? [] : [`${nameOf(object)}: ${problem}`];
}

/** A peer of the experimental part of the API, with which the gate reads the rule as one that allows nothing more. */
export function isExperimental(message: string): boolean {
  return /: "domainNames"; expected .* \(the rule (accepts nobody|denies everyone)\)$/.test(message);
}

function isReplacedPolicy(value: unknown): boolean {
  return typeof value === "object" && value !== null && "apiVersion" in value && value.apiVersion === REPLACED_POLICIES;
}

/** The pods of templates, without those of workloads whose pods are there themselves. */
function withoutPods(templates: readonly Manifest[], written: readonly Manifest[]): readonly Manifest[] {
  const present = new Set(written.map(({ object }) => workloadKey(object)));
  return templates.filter(({ object }) => !present.has(workloadKey(object)));
}

function workloadKey(object: ClusterObject): string | undefined {
  return object.kind === "Pod" ? workloadKeyOf(object) : undefined;
}

/**
 * Both, where a pod that stands for a template may have the name of another workload's pod, as a Deployment and a CronJob
 * may be called the same: then its kind is part of its name.
 */
function withFreeNames(written: readonly Manifest[], templates: readonly Manifest[]): readonly Manifest[] {
  const holders = new Map(written.map(({ object }) => [nameOf(object), workloadKey(object)]));
  const named = templates.map((manifest): Manifest => {
    const { object } = manifest;
    const own = workloadKey(object);
    const isFree = !holders.has(nameOf(object)) || holders.get(nameOf(object)) === own;
    if (isFree) holders.set(nameOf(object), own);
    return isFree || object.kind !== "Pod" ? manifest : { ...manifest, object: withKindInName(object) };
  });
  return [...written, ...named];
}

function withKindInName(pod: Pod): Pod {
  const { namespace, controller } = pod;
  if (controller === undefined) return pod;
  const name = `${controller.name}-${controller.kind.toLowerCase()}${pod.name.slice(controller.name.length)}`;
  return Object.freeze({ ...pod, name, key: `${namespace}/${name}` });
}

function withoutDoubles(manifests: readonly Manifest[]): {
  readonly unique: readonly Manifest[];
  readonly problems: readonly ManifestProblem[];
} {
  const unique = new Map<string, Manifest>();
  const problems: ManifestProblem[] = [];
  for (const manifest of manifests) {
    const name = nameOf(manifest.object);
    const first = unique.get(name);
    if (first === undefined) unique.set(name, manifest);
    else {
      const message = `${name}: also in ${first.file}:${first.line}; expected once`;
      problems.push({ file: manifest.file, line: manifest.line, message });
    }
  }
  return { unique: [...unique.values()], problems };
}

/** Without the byte order mark that programs of Windows put in front, and kubectl and the daemon pass over. */
function* withoutMark(chunks: Iterable<Uint8Array>): Generator<Uint8Array> {
  let isFirst = true;
  for (const chunk of chunks) {
    const isMarked = isFirst && BYTE_ORDER_MARK.every((byte, i) => chunk[i] === byte);
    yield isMarked ? chunk.subarray(BYTE_ORDER_MARK.length) : chunk;
    isFirst = false;
  }
}

/** By its name; standard input, and a file that tells nothing by it, by its first character, as kubectl does. */
function formatOf(
  file: string,
  chunks: Iterable<Uint8Array>,
): { readonly format: "json" | "yaml"; readonly chunks: Iterable<Uint8Array> } {
  if (/\.ya?ml$/.test(file)) return { format: "yaml", chunks };
  if (file.endsWith(".json")) return { format: "json", chunks };
  const rest = chunks[Symbol.iterator]();
  const first = rest.next();
  const all = function* (): Generator<Uint8Array> {
    if (first.done !== true) yield first.value;
    for (let next = rest.next(); next.done !== true; next = rest.next()) yield next.value;
  };
  const begin = first.done === true ? "" : new TextDecoder().decode(first.value.subarray(0, LONGEST_LEAD)).trimStart();
  return { format: begin.startsWith("{") ? "json" : "yaml", chunks: all() };
}

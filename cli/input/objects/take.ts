import { judge, nameOf } from "../../../objects/gate/gate.ts";
import type { ClusterObject } from "../../../objects/model.ts";
import type { FieldPath, LocatedObject } from "../../../objects/yaml/documents.ts";
import { asClusterNetworkPolicies } from "../admin_policy.ts";
import { hostPortProblems, hostPortsOf } from "../host_ports.ts";
import type { Manifest, ManifestProblem } from "../manifests.ts";
import { writtenPath } from "../place.ts";
import { at as valueAt, textAt } from "../raw.ts";
import type { Reading } from "../reading.ts";
import { portProblems, wantedProblem } from "../service_source.ts";
import { isWayKind, readWayObject } from "../ways/read.ts";
import type { PlacedWayObject } from "../ways/way_object.ts";
import {
  isOwnGroup,
  isWorkloadKind,
  renamedPod,
  selectorOf,
  withSelector,
  type Workload,
  workloadOf,
} from "../workload.ts";
import { managerOf } from "./endpoints.ts";
import { unknownFields, unknownFieldText } from "./unknown_fields.ts";
import { unknownKindText } from "./unknown_kind.ts";
import { isUnsupportedKind, namedText, OMIT, unsupportedText } from "./unsupported.ts";
import { isObject } from "../../../objects/gate/reader.ts";

/** The namespace of objects that name none, as in the gate. */
export const DEFAULT_NAMESPACE = "default";
/** The kinds whose source and lines are retained; of pods, slices and nodes there may be tens of thousands. */
export const KEPT: ReadonlySet<string> = new Set(["Namespace", "Service", "NetworkPolicy", "ClusterNetworkPolicy"]);
const REPLACED_POLICIES = "policy.networking.k8s.io/v1alpha1";

/** The result for one object of a file. */
export type Taken =
  | {
      readonly type: "manifests";
      readonly manifests: readonly Manifest[];
      readonly isTemplate: boolean;
      readonly remarks: readonly ManifestProblem[];
    }
  | { readonly type: "problems"; readonly problems: readonly ManifestProblem[] }
  /** A kind that would change answers but is not understood; only with the option that permits it. */
  | { readonly type: "unsupported"; readonly omitted: ManifestProblem }
  | { readonly type: "ignored"; readonly kind: string; readonly isOwn: boolean }
  | { readonly type: "way in"; readonly placed: PlacedWayObject }
  /** An unreadable object of this sort: its way in is unknown, and answers about pods stay right. */
  | { readonly type: "no way in"; readonly omitted: ManifestProblem };

/** The file of an object, and how to read it. */
export interface Context extends Pick<Reading, "validate" | "ignoreUnsupported" | "waysIn"> {
  readonly file: string;
  /** The namespace for an object that names none. */
  readonly namespace: string;
}

/** Reads an object of a file as an object of the model, pods that stand for a template, or problems. */
export function takeObject(located: LocatedObject, context: Context): Taken {
  const { file } = context;
  const [apiVersion, kind] = [textAt(located.value, "apiVersion") ?? "", textAt(located.value, "kind") ?? ""];
  if (isUnsupportedKind(apiVersion, kind)) return takeUnsupported(located, context, { apiVersion, kind });
  const placed = placedIn(context.namespace, located);
  if (context.waysIn === true && isWayKind(apiVersion, kind)) return takeWayObject(placed, file);
  const named = namedText(
    apiVersion,
    kind,
    ["namespace", "name"].flatMap((field) => textAt(placed.value, "metadata", field) ?? []).join("/"),
  );
  if (named !== undefined) return { type: "unsupported", omitted: { file, line: located.lineOf([]), message: named } };
  const workload = workloadOf(placed.value);
  return workload === undefined ? takeWritten(placed, context) : takeTemplate(workload, placed, file);
}

function takeWayObject({ value, lineOf }: LocatedObject, file: string): Taken {
  const object = readWayObject(value);
  if (typeof object !== "string") {
    return { type: "way in", placed: { object, file, line: lineOf([]), lineOf, source: value } };
  }
  const line = lineOf(fieldPathOf(object));
  return { type: "no way in", omitted: { file, line, message: `${object} ${NO_WAY_IN}`, source: value } };
}

/** Ends the message about an unreadable object by which connections would come in. */
export const NO_WAY_IN = "(omitted: a way in by it is not known)";

function takeUnsupported(
  located: LocatedObject,
  context: Context,
  { apiVersion, kind }: { readonly apiVersion: string; readonly kind: string },
): Taken {
  const { file } = context;
  if (context.ignoreUnsupported === true) {
    const key = ["namespace", "name"].flatMap((field) => textAt(located.value, "metadata", field) ?? []).join("/");
    const message = `${kind} ${key}: omitted, and the answer is without it`;
    return { type: "unsupported", omitted: { file, line: located.lineOf([]), message } };
  }
  const taken = takeWritten(located, context);
  if (taken.type === "problems") {
    const withWay = (one: ManifestProblem) => ({ ...one, message: `${one.message}; ${OMIT}` });
    return { ...taken, problems: taken.problems.map(withWay) };
  }
  const message = `${unsupportedText(apiVersion, kind)}; ${OMIT}`;
  return { type: "problems", problems: [{ file, line: located.lineOf([]), message, source: located.value }] };
}

/** Returns whether no answer depends on objects of this kind, read or not; one of other makers may stand for pods. */
export function isIgnoredKind(apiVersion: string, kind: string): boolean {
  if (!isOwnGroup(apiVersion) || kind.endsWith("List") || kind === "Endpoints") return false;
  if (isWorkloadKind(apiVersion, kind) || isUnsupportedKind(apiVersion, kind)) return false;
  return judge({ apiVersion, kind }).type === "ignored" && unknownKindText(apiVersion, kind) === undefined;
}

/** The number of characters of a `generateName` that the API server keeps. */
const LONGEST_PREFIX = 58;
/** Stands for the five characters that the API server appends at random. */
const GENERATED_END = "xxxxx";

/**
 * Sets the namespace as kubectl does, and a name where the API server generates one; kinds without namespaces ignore
 * the first.
 */
function placedIn(namespace: string, located: LocatedObject): LocatedObject {
  const { value } = located;
  if (!isObject(value) || !isObject(value["metadata"])) return located;
  const { metadata } = value;
  const prefix = metadata["name"] ? undefined : metadata["generateName"];
  const isPlaced = namespace === DEFAULT_NAMESPACE || Boolean(metadata["namespace"]);
  const isGenerated = typeof prefix === "string" && prefix !== "";
  if (isPlaced && !isGenerated) return located;
  const name = isGenerated ? { name: `${prefix.slice(0, LONGEST_PREFIX)}${GENERATED_END}` } : {};
  return { ...located, value: { ...value, metadata: { ...metadata, ...(isPlaced ? {} : { namespace }), ...name } } };
}

/** Returns the pods of a template; a problem in the template is reported once, for the workload. */
function takeTemplate(workload: Workload, located: LocatedObject, file: string): Taken {
  const line = located.lineOf([]);
  const { name, pods, replicas } = workload;
  const source = located.value;
  if (workload.problem !== undefined) {
    const at = located.lineOf(fieldPathOf(workload.problem));
    return { type: "problems", problems: [{ file, line: at, message: workload.problem, source }] };
  }
  const judged = pods.map((pod) => ({ ...pod, verdict: judge(pod.value) }));
  // The pods of a template have the same problems.
  const bad = judged.find(({ verdict, value }) => messagesOf(verdict, value).length > 0);
  if (bad !== undefined) {
    const { template } = bad;
    const problems = messagesOf(bad.verdict, bad.value).map((message): ManifestProblem => {
      const path = fieldPathOf(message);
      const at = located.lineOf(path.length === 0 ? [] : [...template, ...path]);
      return {
        file,
        line: at,
        message: withoutConsequence(withPathInTemplate(message, name, template.join("."))),
        source,
      };
    });
    return { type: "problems", problems };
  }
  const manifests = judged.flatMap(({ verdict, name: podName, value }) =>
    verdict.type === "accepted" && verdict.object.kind === "Pod"
      ? [
          {
            object: withSelector(renamedPod(verdict.object, podName), selectorOf(source)),
            file,
            line,
            lineOf: () => line,
            source: undefined,
            workload: name,
            ...(replicas === undefined ? {} : { replicas }),
            ...withHostPorts(verdict.object, value),
          },
        ]
      : [],
  );
  return { type: "manifests", manifests, isTemplate: true, remarks: [] };
}

function takeWritten(located: LocatedObject, { file, validate }: Context): Taken {
  const { value } = located;
  const line = located.lineOf([]);
  const verdict = judge(value);
  if (verdict.type === "ignored") return takeIgnored(located, file);
  const messages = messagesOf(verdict, value);
  // A misspelt field is the likely cause of whatever else is refused; of an accepted object, lint reports it itself.
  const isFinding = validate === undefined && messages.every(isExperimental);
  const unknown = isFinding ? [] : unknownIn(verdict, located, file);
  const reported = messages.map((message): ManifestProblem => ({
    file,
    line: located.lineOf(fieldPathOf(message)),
    message,
    source: value,
  }));
  if (validate === "strict" && unknown.length > 0 && messages.every(isExperimental)) {
    return { type: "problems", problems: unknown };
  }
  if (verdict.type === "refused" || !messages.every(isExperimental)) {
    // The daemon goes on without the part, but a command stops.
    const problems = reported.map((one) => ({ ...one, message: withoutConsequence(one.message) }));
    if (!isReplacedPolicy(value)) return { type: "problems", problems: [...unknown, ...problems] };
    const conversion = asClusterNetworkPolicies(value);
    const withConversion = (one: ManifestProblem): ManifestProblem =>
      conversion.type === "converted"
        ? { ...one, replacement: conversion.yaml }
        : { ...one, message: `${one.message} (it cannot be made of this one: ${conversion.problem})` };
    return { type: "problems", problems: problems.map(withConversion) };
  }
  const object = withPhase(verdict.object, value);
  const isKept = KEPT.has(object.kind);
  const lineOf = isKept ? (path: FieldPath) => located.lineOf(writtenPath(object, path)) : () => line;
  const manifest: Manifest = {
    object,
    file,
    line,
    lineOf,
    source: isKept ? value : undefined,
    ...(object.kind === "EndpointSlice" ? { manager: managerOf(value) } : {}),
    ...withHostPorts(object, value),
  };
  return { type: "manifests", manifests: [manifest], isTemplate: false, remarks: [...reported, ...unknown] };
}

/** Returns an object of a kind that is not read, or the problem that it is probably meant to be of another. */
function takeIgnored({ value, lineOf }: LocatedObject, file: string): Taken {
  const [kind, apiVersion] = [textAt(value, "kind") ?? "", textAt(value, "apiVersion") ?? ""];
  // A list that can be read is open by now.
  const isShut = isOwnGroup(apiVersion) && kind.endsWith("List") && valueAt(value, "items") !== undefined;
  const message = isShut ? `${kind}: items: expected a list of objects` : unknownKindText(apiVersion, kind);
  if (message === undefined) return { type: "ignored", kind, isOwn: isOwnGroup(apiVersion) };
  return { type: "problems", problems: [{ file, line: lineOf([]), message, source: value }] };
}

/** A pod without a status is one of a file: like one of a template it counts as running. */
function withPhase(object: ClusterObject, value: unknown): ClusterObject {
  if (object.kind !== "Pod" || textAt(value, "status", "phase") !== undefined) return object;
  return Object.freeze({ ...object, phase: "Running" });
}

/** Returns the fields of a policy that the API does not have; kubectl refuses them, too (`--validate=strict`). */
function unknownIn(
  verdict: Exclude<ReturnType<typeof judge>, { readonly type: "ignored" }>,
  { value, lineOf }: LocatedObject,
  file: string,
): readonly ManifestProblem[] {
  const id = verdict.type === "accepted" ? verdict.object : verdict.id;
  if (verdict.type === "refused" && verdict.kind === undefined) return [];
  const name = id === undefined ? textAt(value, "kind") : nameOf(id);
  return unknownFields(value).map((field) => ({
    file,
    line: lineOf(field.path),
    message: `${name}: ${unknownFieldText(field)}`,
    source: value,
  }));
}

/** Returns the problems of an object. */
function messagesOf(verdict: ReturnType<typeof judge>, value: unknown): readonly string[] {
  if (verdict.type === "ignored") return [];
  return verdict.type === "refused" ? [verdict.problem] : [...verdict.problems, ...unread(verdict.object, value)];
}

/** Removes the note by which a gate says how it goes on. */
function withoutConsequence(message: string): string {
  return message.replace(/ \([^()]+\)$/, "");
}

/** Returns the field with a pod's host ports, or nothing. */
export function withHostPorts({ kind }: ClusterObject, value: unknown): Pick<Manifest, "hostPorts"> {
  const hostPorts = kind === "Pod" ? hostPortsOf(value) : [];
  return hostPorts.length === 0 ? {} : { hostPorts };
}

/** Returns problems in fields that the commands read and the daemon does not. */
function unread(object: ClusterObject, value: unknown): readonly string[] {
  const problem = object.kind === "Service" && object.type !== "ExternalName" ? wantedProblem(value) : undefined;
  const problems = [
    ...(problem === undefined ? [] : [problem]),
    ...(object.kind === "Service" ? portProblems(value) : []),
    ...(object.kind === "Pod" ? hostPortProblems(value) : []),
  ];
  return problems.map((one) => `${nameOf(object)}: ${one}`);
}

/** Returns whether a message is about an experimental peer; with it, the gate reads a rule that allows nothing more. */
export function isExperimental(message: string): boolean {
  return /: "domainNames"; expected .* \(the rule (accepts nobody|denies everyone)\)$/.test(message);
}

/** Returns whether an object is an AdminNetworkPolicy or BaselineAdminNetworkPolicy. */
export function isReplacedPolicy(value: unknown): boolean {
  return textAt(value, "apiVersion") === REPLACED_POLICIES;
}

/** Matches the field in a gate's message: names joined by dots, `[0]`, `["a key"]`, and `key` for a map's keys. */
const FIELD = /^[A-Z]\w*(?: \S+)?: ([a-zA-Z][\w-]*(?:\.[\w-]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])*)(?: key)?: /;
const STEP = /([\w-]+)|\["((?:[^"\\]|\\.)*)"\]/g;

/**
 * Returns the field that a message of the gates is about. These have the form `Kind name: spec.ports[0].port: …`; any
 * other message is about the whole object, an empty path.
 */
function fieldPathOf(message: string): FieldPath {
  const [, field = ""] = FIELD.exec(message) ?? [];
  return [...field.matchAll(STEP)].map(([, name, quoted]) => {
    if (name === undefined) return String(JSON.parse(`"${quoted ?? ""}"`));
    return /^\d+$/.test(name) ? Number(name) : name;
  });
}

/** Moves a gate's message to an object with the fields elsewhere: `Pod a/web-0: metadata.labels` of a template. */
function withPathInTemplate(message: string, name: string, prefix: string): string {
  const [whole] = FIELD.exec(message) ?? [];
  const rest = message.slice(message.indexOf(": ") + 2);
  return `${name}: ${whole === undefined ? "" : `${prefix}.`}${rest}`;
}

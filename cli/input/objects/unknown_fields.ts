import { DIRECTIONS } from "../../../objects/semantics/policies/flow.ts";
import type { FieldPath } from "../../../objects/yaml/documents.ts";
import { nearestNames } from "../../../objects/nearest_names.ts";
import { listAt, membersAt, textAt } from "../raw.ts";

/** A field that the API does not have. */
export interface UnknownField {
  readonly path: FieldPath;
  readonly name: string;
  /** The fields that the API has at this place. */
  readonly known: readonly string[];
  /** It is at a place where a selector has matchLabels. */
  readonly isLabel?: boolean;
}

/**
 * The fields of a policy at each place. The API server drops others, or refuses them when asked to be strict; either
 * way they have no effect.
 */
interface Fields {
  readonly spec: readonly string[];
  readonly rule: readonly string[];
  /** The fields of peers with named members only. */
  readonly peer: readonly string[];
}

const FIELDS: Readonly<Record<string, Fields>> = {
  NetworkPolicy: {
    spec: ["podSelector", "policyTypes", "ingress", "egress"],
    rule: ["ports"],
    peer: ["podSelector", "namespaceSelector", "ipBlock"],
  },
  ClusterNetworkPolicy: {
    spec: ["tier", "priority", "subject", "ingress", "egress"],
    rule: ["name", "action", "protocols"],
    peer: ["namespaces", "pods", "nodes", "networks", "domainNames"],
  },
};

const OBJECT = ["apiVersion", "kind", "metadata", "spec", "status"];
/** ObjectMeta of meta/v1. */
const METADATA = [
  "name",
  "generateName",
  "namespace",
  "selfLink",
  "uid",
  "resourceVersion",
  "generation",
  "creationTimestamp",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "labels",
  "annotations",
  "ownerReferences",
  "finalizers",
  "managedFields",
  "clusterName",
];
const PEERS = { ingress: ["from", "_from"], egress: ["to"] } as const;
const PORT = ["protocol", "port", "endPort"];
const IP_BLOCK = ["cidr", "except"];
const PODS = ["namespaceSelector", "podSelector"];
const SELECTOR = ["matchLabels", "matchExpressions"];
const REQUIREMENT = ["key", "operator", "values"];

/** Returns the fields of a NetworkPolicy or a ClusterNetworkPolicy that the API does not have. */
export function unknownFields(source: unknown): readonly UnknownField[] {
  const fields = FIELDS[textAt(source, "kind") ?? ""];
  if (fields === undefined) return [];
  return [
    ...others(source, [], OBJECT),
    ...others(source, ["metadata"], METADATA),
    ...others(source, ["spec"], fields.spec),
    ...ofSelector(source, ["spec", "podSelector"]),
    ...ofPods(source, ["spec", "subject"]),
    ...DIRECTIONS.flatMap((direction) =>
      elements(source, ["spec", direction]).flatMap((rule) => [
        ...others(source, rule, [...PEERS[direction], ...fields.rule]),
        ...["from", "_from", "to"].flatMap((key) =>
          elements(source, [...rule, key]).flatMap((peer) => ofPeer(source, peer, fields)),
        ),
        ...elements(source, [...rule, "ports"]).flatMap((port) => others(source, port, PORT)),
      ]),
    ),
  ];
}

function ofPeer(source: unknown, path: FieldPath, { peer }: Fields): readonly UnknownField[] {
  return [
    ...others(source, path, peer),
    ...others(source, [...path, "ipBlock"], IP_BLOCK),
    ...["podSelector", "namespaceSelector", "nodes"].flatMap((key) => ofSelector(source, [...path, key])),
    ...ofPods(source, path),
  ];
}

/** Checks the pods in a ClusterNetworkPolicy: `namespaces` is a selector itself, `pods` has two. */
function ofPods(source: unknown, path: FieldPath): readonly UnknownField[] {
  return [
    ...ofSelector(source, [...path, "namespaces"]),
    ...others(source, [...path, "pods"], PODS),
    ...PODS.flatMap((key) => ofSelector(source, [...path, "pods", key])),
  ];
}

/** Checks a selector: one with a misspelt field selects everything. */
function ofSelector(source: unknown, path: FieldPath): readonly UnknownField[] {
  return [
    ...others(source, path, SELECTOR).map((one) => ({ ...one, isLabel: true })),
    ...elements(source, [...path, "matchExpressions"]).flatMap((one) => others(source, one, REQUIREMENT)),
  ];
}

function others(source: unknown, path: FieldPath, known: readonly string[]): readonly UnknownField[] {
  return membersAt(source, ...path).flatMap(([name]) =>
    known.includes(name) ? [] : [{ path: [...path, name], name, known }],
  );
}

function elements(source: unknown, path: FieldPath): readonly FieldPath[] {
  return listAt(source, ...path).map((_, i) => [...path, i]);
}

/** Returns the message for such a field in the gates' form: `spec.podSelector.matchLabel: …`. */
export function unknownFieldText({ path, name, known }: UnknownField): string {
  const place = path.map((step) => (typeof step === "number" ? `[${step}]` : `.${step}`)).join("");
  const [nearest] = nearestNames(name, known);
  const expected = nearest === undefined ? `one of ${known.join(", ")}` : nearest;
  return `${place.slice(1)}: a field that the API does not have; expected ${expected}`;
}

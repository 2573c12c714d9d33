import { DrawbridgeError } from "../../kernel/error.ts";
import { readClusterNetworkPolicy } from "./cluster_network_policy.ts";
import { readEndpointSlice } from "./endpoint_slice.ts";
import { readMetadata, readNamespacedMetadata } from "./metadata.ts";
import { readNamespace } from "./namespace.ts";
import { readNetworkPolicy } from "./network_policy.ts";
import { readNode } from "./node.ts";
import { readPod } from "./pod.ts";
import { readService, readServiceCidr } from "./service.ts";
import type { ClusterObject, Kind } from "../model.ts";
import { ProblemList } from "../problem_list.ts";
import { Reader } from "./reader.ts";

/** The gate's result for one value. */
export type Verdict =
  /** A usable object, and a problem for each part that was omitted. */
  | { readonly type: "accepted"; readonly object: ClusterObject; readonly problems: readonly string[] }
  /** An unusable object of our kinds. If its `id` is known, an older version of it stays in force. */
  | {
      readonly type: "refused";
      readonly id: ObjectId | undefined;
      /** Undefined where even the kind is unknown. */
      readonly kind: Kind | undefined;
      readonly problem: string;
    }
  /** An object of another kind. */
  | { readonly type: "ignored" };

export interface ObjectId {
  readonly kind: Kind;
  readonly key: string;
}

interface Gate {
  readonly kind: Kind;
  /** Group and version; the empty group for the core. */
  readonly group: string;
  /** The versions, the newest first; all have the same schema. */
  readonly versions: readonly string[];
  readonly isNamespaced: boolean;
  readonly read: (object: Reader) => ClusterObject;
}

/** The group of ClusterNetworkPolicy. */
export const CLUSTER_POLICIES = "policy.networking.k8s.io";
/** The versions of ClusterNetworkPolicy, the newest first (network-policy-api 0.3.0 stores v1beta1 and serves both). */
export const CLUSTER_POLICY_VERSIONS = ["v1beta1", "v1alpha2"] as const;

const GATES: readonly Gate[] = [
  { kind: "Namespace", group: "", versions: ["v1"], isNamespaced: false, read: readNamespace },
  { kind: "Node", group: "", versions: ["v1"], isNamespaced: false, read: readNode },
  { kind: "Pod", group: "", versions: ["v1"], isNamespaced: true, read: readPod },
  { kind: "Service", group: "", versions: ["v1"], isNamespaced: true, read: readService },
  { kind: "EndpointSlice", group: "discovery.k8s.io", versions: ["v1"], isNamespaced: true, read: readEndpointSlice },
  { kind: "NetworkPolicy", group: "networking.k8s.io", versions: ["v1"], isNamespaced: true, read: readNetworkPolicy },
  {
    kind: "ClusterNetworkPolicy",
    group: CLUSTER_POLICIES,
    versions: CLUSTER_POLICY_VERSIONS,
    isNamespaced: false,
    read: readClusterNetworkPolicy,
  },
  { kind: "ServiceCIDR", group: "networking.k8s.io", versions: ["v1"], isNamespaced: false, read: readServiceCidr },
];

/**
 * Turns one value of unknown JSON into an object of the model: the only way into it, for files and the API alike.
 *
 * Used fields are checked strictly, and others are ignored. An invalid part is omitted where the rest does not depend
 * on it and its absence opens nothing; otherwise the object is refused. Every message begins with kind and key.
 */
export function judge(value: unknown): Verdict {
  const problems = new ProblemList();
  let reader: Reader;
  let gate: Gate | undefined;
  try {
    reader = new Reader(value, "", problems);
    gate = findGate(reader.string("apiVersion"), reader.string("kind"));
  } catch (error) {
    return refused(error, undefined);
  }
  if (gate === undefined) return { type: "ignored" };
  let id: ObjectId | undefined;
  try {
    id = { kind: gate.kind, key: gate.isNamespaced ? readNamespacedMetadata(reader).key : readMetadata(reader).name };
    const object = gate.read(reader);
    const name = nameOf(id);
    return {
      type: "accepted",
      object,
      problems: Object.freeze(problems.all().map((problem) => `${name}: ${problem}`)),
    };
  } catch (error) {
    return refused(error, id, gate.kind);
  }
}

/** Whether objects of this kind are policies of another engine or of a removed API: no gate reads them. */
export function isForeignPolicy(apiVersion: string, kind: string): boolean {
  const group = groupOf(apiVersion);
  const isOurs = GATES.some((gate) => gate.group === group && gate.kind === kind);
  return !isOurs && (group === CLUSTER_POLICIES || kind.endsWith("NetworkPolicy"));
}

/** Returns an object's name for people, such as `Pod default/web-0`. */
export function nameOf(id: ObjectId): string {
  return `${id.kind} ${id.key}`;
}

/** @throws DrawbridgeError ERR_OBJECT for a version or a policy that must not be ignored in silence */
function findGate(apiVersion: string, kind: string): Gate | undefined {
  const group = groupOf(apiVersion);
  const version = apiVersion.slice(group === "" ? 0 : group.length + 1);
  const gate = GATES.find((candidate) => candidate.group === group && candidate.kind === kind);
  // Ignoring a policy of an unknown kind in silence, whatever its group, would leave open what it closes.
  if (isForeignPolicy(apiVersion, kind)) {
    const way =
      group === CLUSTER_POLICIES
        ? `ClusterNetworkPolicy of ${CLUSTER_POLICIES}/${CLUSTER_POLICY_VERSIONS[0]}`
        : "NetworkPolicy of networking.k8s.io/v1";
    const what = `${kind} of ${JSON.stringify(apiVersion)}`;
    throw new DrawbridgeError("ERR_OBJECT", `${what}: Drawbridge does not enforce it; use ${way}`);
  }
  if (gate !== undefined && !gate.versions.includes(version)) {
    const expected = gate.versions.map((known) => (group === "" ? known : `${group}/${known}`)).join(" or ");
    throw new DrawbridgeError("ERR_OBJECT", `${kind}: apiVersion ${JSON.stringify(apiVersion)}; expected ${expected}`);
  }
  return gate;
}

/** Returns the group of an `apiVersion`; empty for the core. */
export function groupOf(apiVersion: string): string {
  const slash = apiVersion.indexOf("/");
  return slash < 0 ? "" : apiVersion.slice(0, slash);
}

function refused(error: unknown, id: ObjectId | undefined, kind?: Kind): Verdict {
  if (!(error instanceof DrawbridgeError)) throw error;
  const name = id === undefined ? kind : nameOf(id);
  return { type: "refused", id, kind, problem: `${name === undefined ? "" : `${name}: `}${error.message}` };
}

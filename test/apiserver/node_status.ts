import { isDeepStrictEqual } from "node:util";
import { type RawObject, recordOf } from "./storage.ts";

/** The resource's name in RBAC. */
export const NODE_STATUS = "nodes/status";
export const NODES_PATH = "/api/v1/nodes";
export const STRATEGIC_MERGE = "application/strategic-merge-patch+json";

const STATUS_PATH = /^\/api\/v1\/nodes\/([^/]+)\/status$/;
/**
 * Lists of NodeStatus whose elements are merged, with the field that identifies an element; other lists are replaced
 * (core/v1 types.go).
 */
const MERGE_KEYS: Readonly<Record<string, string>> = { conditions: "type", addresses: "type" };

/** Returns the Node whose status has this path; undefined for any other path. */
export function nodeOfStatus(path: string): string | undefined {
  const name = STATUS_PATH.exec(path)?.[1];
  return name === undefined ? undefined : decodeURIComponent(name);
}

/**
 * Returns a real server's refusal of a patch of a Node's status, as far as this server knows patches; undefined if it
 * accepts it.
 */
export function patchRefusal(patch: RawObject): { readonly status: number; readonly message: string } | undefined {
  const refused = (status: number, message: string) => ({ status, message });
  if (JSON.stringify(patch).includes('"$'))
    return refused(501, "directives such as $patch are not known to this server");
  const { conditions = [] } = recordOf(patch["status"]);
  if (!Array.isArray(conditions)) return refused(400, "status.conditions: expected a list");
  for (const { type, status, lastHeartbeatTime, lastTransitionTime } of conditions.map(recordOf)) {
    if (type === undefined) return refused(500, "map: does not contain declared merge key: type");
    const isValid = typeof type === "string" && typeof (status ?? "") === "string";
    if (!isValid || ![lastHeartbeatTime, lastTransitionTime].every(isTime)) return refused(422, "patch: Invalid value");
  }
  return undefined;
}

/** Returns a Node with only its status patched; the same one if nothing changes. */
export function withStatus(node: RawObject, patch: RawObject): RawObject {
  const status = merged(recordOf(node["status"]), recordOf(patch["status"]));
  return isDeepStrictEqual(status, recordOf(node["status"])) ? node : { ...node, status };
}

/** Merges strategically: null removes, objects are merged, and so are lists with a merge key, element by element. */
function merged(target: RawObject, patch: RawObject): RawObject {
  const result = new Map(Object.entries(target));
  for (const [field, value] of Object.entries(patch)) {
    const key = MERGE_KEYS[field];
    const before = result.get(field);
    if (value === null) result.delete(field);
    else if (Array.isArray(value)) result.set(field, key === undefined ? value : mergedList(before, value, key));
    else result.set(field, typeof value === "object" ? merged(recordOf(before), recordOf(value)) : value);
  }
  return Object.fromEntries(result);
}

/** Merges lists: existing elements keep their places; new ones come first, as on the real server. */
function mergedList(target: unknown, patch: readonly unknown[], key: string): readonly RawObject[] {
  const list = Array.isArray(target) ? target.map(recordOf) : [];
  const patches = new Map(patch.map(recordOf).map((element) => [element[key], element]));
  const known = new Set(list.map((element) => element[key]));
  return [
    ...[...patches.values()].filter((element) => !known.has(element[key])),
    ...list.map((element) => merged(element, patches.get(element[key]) ?? {})),
  ];
}

function isTime(value: unknown): boolean {
  return value === undefined || (typeof value === "string" && /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$/.test(value));
}

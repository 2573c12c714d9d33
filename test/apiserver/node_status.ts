import { type RawObject, recordOf } from "./storage.ts";

/** The resource's name in RBAC. */
export const NODE_STATUS = "nodes/status";
export const NODES_PATH = "/api/v1/nodes";
export const STRATEGIC_MERGE = "application/strategic-merge-patch+json";

const STATUS_PATH = /^\/api\/v1\/nodes\/([^/]+)\/status$/;
/** Returns the Node whose status has this path; undefined for any other path. */
export function nodeOfStatus(path: string): string | undefined {
  const name = STATUS_PATH.exec(path)?.[1];
  return name === undefined ? undefined : decodeURIComponent(name);
}

/**
 * Returns a Node with the conditions of a strategic merge patch, each merged with the one of its type; undefined for a
 * patch of anything else, which this server does not know.
 */
export function withConditions(node: RawObject, patch: RawObject): RawObject | undefined {
  const { status, ...others } = patch;
  const { conditions, ...rest } = recordOf(status);
  if (!Array.isArray(conditions) || Object.keys({ ...others, ...rest }).length > 0) return undefined;
  const before = recordOf(node["status"]);
  const known = Array.isArray(before["conditions"]) ? before["conditions"].map(recordOf) : [];
  const merged = new Map(known.map((condition) => [condition["type"], condition]));
  for (const condition of conditions.map(recordOf)) {
    merged.set(condition["type"], { ...merged.get(condition["type"]), ...condition });
  }
  return { ...node, status: { ...before, conditions: [...merged.values()] } };
}

import { CLUSTER_POLICY_DEFINITION, RESOURCES, versionsOf } from "../../policyd/sources/api/resources.ts";
import type { RawObject } from "./storage.ts";

/** One list of the server. */
export interface List {
  readonly kind: string;
  readonly apiVersion: string;
  /** The resource's name in RBAC. */
  readonly name: string;
  readonly path: string;
  /** The path under which its objects are stored: the same for all versions of a kind. */
  readonly stored: string;
}

/** Every kind in each of its versions, and the definitions of kinds. */
export const LISTS: readonly List[] = [
  ...RESOURCES.flatMap((resource) =>
    versionsOf(resource).map((version): List => ({ ...version, stored: resource.path })),
  ),
  { ...CLUSTER_POLICY_DEFINITION, stored: CLUSTER_POLICY_DEFINITION.path },
];

/** Returns the path under which an object is stored. @throws Error for an unknown kind */
export function storedPathOf({ kind, apiVersion }: RawObject): string {
  const found = LISTS.find((list) => list.kind === kind && list.apiVersion === apiVersion);
  if (found === undefined) throw new Error(`${String(kind)} of ${String(apiVersion)} is not served`);
  return found.stored;
}

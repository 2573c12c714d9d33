import type { ClusterObject, NetworkPolicy } from "./model.ts";

/** On a NetworkPolicy: "true" has it counted and logged, and not enforced. */
export const SHADOW_ANNOTATION = "drawbridge.dev/shadow";

/** Whether a policy is only to be tried out. Any other value than "true" leaves it in force: a typo must not open pods. */
export function isShadow({ annotations }: Pick<NetworkPolicy, "annotations">): boolean {
  return annotations[SHADOW_ANNOTATION] === "true";
}

/** The object as it would be without the annotation; any other as it is. */
export function inForce(object: ClusterObject): ClusterObject {
  if (object.kind !== "NetworkPolicy" || !isShadow(object)) return object;
  const { [SHADOW_ANNOTATION]: _, ...annotations } = object.annotations;
  return Object.freeze({ ...object, annotations: Object.freeze(annotations) });
}

/** Why the annotation has no effect, in a sentence; undefined where it has one, and where there is none. */
export function shadowProblem({ annotations }: Pick<NetworkPolicy, "annotations">): string | undefined {
  const value = annotations[SHADOW_ANNOTATION];
  if (value === undefined || value === "true" || value === "false") return undefined;
  return `${SHADOW_ANNOTATION}: ${JSON.stringify(value)} is not "true": the policy is in force`;
}

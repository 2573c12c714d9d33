import type { NetworkPolicy } from "./model.ts";

/** The annotation of a NetworkPolicy that with "true" is counted and logged, and not enforced. */
export const SHADOW_ANNOTATION = "drawbridge.dev/shadow";

/** Whether a policy is in shadow. Any other value than "true" leaves it in force: a typo must not open pods. */
export function isShadow({ annotations }: Pick<NetworkPolicy, "annotations">): boolean {
  return annotations[SHADOW_ANNOTATION] === "true";
}

/** Returns why the annotation has no effect, in words; undefined where it has one or is absent. */
export function shadowProblem({ annotations }: Pick<NetworkPolicy, "annotations">): string | undefined {
  const value = annotations[SHADOW_ANNOTATION];
  if (value === undefined || value === "true" || value === "false") return undefined;
  return `${SHADOW_ANNOTATION}: ${JSON.stringify(value)} is not "true": the policy is in force`;
}

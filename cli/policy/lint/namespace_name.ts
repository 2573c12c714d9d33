import type { LabelSelector } from "../../../objects/model.ts";
import { NAMESPACE_NAME } from "../../../objects/name.ts";
import type { LintContext } from "./context.ts";
import { requirementsOf } from "../../../objects/semantics/policies/selector.ts";
import type { Suggestion } from "./nearest_label.ts";

/** Keys by which people ask for a namespace's name; only {@link NAMESPACE_NAME} is set by Kubernetes. */
const NAME_KEYS: ReadonlySet<string> = new Set(["name", "namespace", "ns", "kubernetes.io/name"]);

/** A namespace that a selector asks for by its name under a key of its own, such as `name`. */
export interface NamespaceByName {
  readonly name: string;
  readonly suggestion: Suggestion;
}

/** Returns the namespace whose name a selector that selects no namespace asks for; undefined where there is none. */
export function namespaceByName({ namespaces }: LintContext, selector: LabelSelector): NamespaceByName | undefined {
  for (const { key, operator, values } of requirementsOf(selector)) {
    if (operator !== "In" || !NAME_KEYS.has(key)) continue;
    const name = values.find((value) => namespaces.has(value));
    if (name === undefined) continue;
    return { name, suggestion: { asked: `${key}=${name}`, nearest: `${NAMESPACE_NAME}=${name}` } };
  }
  return undefined;
}

/** Returns whether a selector may select namespaces that were not read, whatever their labels are. */
export function isOpenEnded({ isWhole }: LintContext, selector: LabelSelector | undefined): boolean {
  if (isWhole || selector === undefined) return false;
  return requirementsOf(selector).every(
    ({ key, operator }) =>
      operator === "NotIn" || operator === "DoesNotExist" || (key === NAMESPACE_NAME && operator === "Exists"),
  );
}

/** Returns the namespaces whose labels are unknown, since they have objects but no Namespace object. */
export function namespacesWithoutObject({ namespaces, store }: LintContext): readonly string[] {
  return [...namespaces.keys()].filter((name) => !store.namespaces.has(name)).sort();
}

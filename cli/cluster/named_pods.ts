import { DrawbridgeError } from "../../kernel/error.ts";
import type { Pod } from "../../objects/model.ts";
import { selects } from "../../objects/semantics/policies/selector.ts";
import { workloadNameOf } from "../../objects/workload_name.ts";
import { nearestHint } from "../../objects/nearest_names.ts";
import type { EndName } from "./end_name.ts";
import { groupName } from "./group.ts";

/** Tells whether a pod is one of those that a name of the command line stands for. */
export type Chosen = (pod: Pod) => boolean;

/**
 * Returns the pods that a name stands for; none for the name of a node, a Service or the outside.
 *
 * @throws DrawbridgeError ERR_OBJECT for a word that is the name of a pod or workload and of a namespace
 */
export function podsNamed(pods: readonly Pod[], name: EndName): readonly Pod[] {
  switch (name.type) {
    case "pod": {
      const { key, word } = name;
      const own = pods.filter((pod) => pod.key === key);
      const named = own.length > 0 ? own : pods.filter((pod) => `${pod.namespace}/${workloadNameOf(pod).name}` === key);
      const ofNamespace = word === undefined ? [] : pods.filter(({ namespace }) => namespace === word);
      if (named.length === 0 || ofNamespace.length === 0) return [...named, ...ofNamespace];
      const way = `give ${key} or ${word}/*`;
      throw new DrawbridgeError("ERR_OBJECT", `${JSON.stringify(word)} is ${key} and also a namespace; ${way}`);
    }
    case "workload": {
      const wanted = `${name.namespace}/${name.kind}/${name.name}`;
      return pods.filter((pod) => groupName(pod, "workload") === wanted);
    }
    case "pods": {
      const { namespace, labels } = name;
      return pods.filter(
        (pod) =>
          (namespace === undefined || pod.namespace === namespace) &&
          (labels === undefined || selects(labels, pod.labels)),
      );
    }
    case "address":
      return pods.filter(({ addresses }) => addresses.includes(name.address));
    default:
      return [];
  }
}

/**
 * Returns the test for the pods that a name stands for, as for {@link podsNamed}.
 *
 * @param text the name as it was given, and `option` its option, for the message
 * @throws DrawbridgeError ERR_OBJECT with the nearest names when no pod matches
 */
export function chosenPods(pods: readonly Pod[], name: EndName, { text, option }: Given): Chosen {
  const found = podsNamed(pods, name);
  if (found.length === 0) {
    const forms =
      "expected a pod (shop/db-0), a workload (shop/db or shop/statefulset/db) or a namespace (shop) with pods";
    const hint = nearestHint(text, new Set(pods.flatMap(namesOf)), forms);
    throw new DrawbridgeError("ERR_OBJECT", `${option} ${JSON.stringify(text)}: no running pod has this name; ${hint}`);
  }
  const key = name.type === "pod" && found.some((pod) => pod.key === name.key) ? name.key : undefined;
  return (pod) => (key === undefined ? podsNamed([pod], name).length > 0 : pod.key === key);
}

interface Given {
  readonly text: string;
  readonly option: string;
}

/** Returns all names of a pod that people give. */
export function namesOf(pod: Pod): readonly string[] {
  const { namespace, key } = pod;
  return [key, `${namespace}/${workloadNameOf(pod).name}`, groupName(pod, "workload"), namespace, `${namespace}/*`];
}

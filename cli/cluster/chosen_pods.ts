import { DrawbridgeError } from "../../kernel/error.ts";
import type { Pod } from "../../objects/model.ts";
import { groupName } from "./group.ts";
import { nearestNames } from "../nearest_names.ts";
import { workloadNameOf } from "../../objects/workload_name.ts";

/** Tells whether a pod is one of those that a name of the command line stands for. */
export type Chosen = (pod: Pod) => boolean;

/**
 * Returns the test for the pods that a name stands for: `shop/db` is a pod or a workload of this name,
 * `shop/deployment/db` a workload, `shop` or `shop/*` a whole namespace.
 *
 * @param option for the message
 * @throws DrawbridgeError ERR_OBJECT with the nearest names when no pod matches
 */
export function chosenPods(pods: readonly Pod[], name: string, option: string): Chosen {
  const isChosen: Chosen = (pod) => namesOf(pod).includes(name);
  if (pods.some(isChosen)) return isChosen;
  const nearest = nearestNames(name, new Set(pods.flatMap(namesOf)));
  const hint =
    nearest.length === 0
      ? "expected a pod (shop/db-0), a workload (shop/db or shop/statefulset/db) or a namespace (shop) with pods"
      : `did you mean ${nearest.join(" or ")}?`;
  throw new DrawbridgeError("ERR_OBJECT", `${option} ${JSON.stringify(name)}: no pod that runs is called so; ${hint}`);
}

function namesOf(pod: Pod): readonly string[] {
  const { namespace, key } = pod;
  return [key, `${namespace}/${workloadNameOf(pod).name}`, groupName(pod, "workload"), namespace, `${namespace}/*`];
}

import type { Pod } from "../../../objects/model.ts";
import { workloadKeyOf } from "../../../objects/workload_name.ts";

/** A pod by its key on each side; undefined where its workload is absent. */
export interface Counterparts {
  readonly before: string | undefined;
  readonly after: string | undefined;
}

/**
 * Pairs each pod with the one to compare it with: the pod of its name, or else another one of its workload. Pods of a
 * Deployment get new names with each change, and pods that stand for templates have names of their own; neither makes a
 * new workload. A pod by which a workload grew or shrank is paired with the first one of the other side.
 *
 * @param before the running pods, likewise `after`
 */
export function counterparts(before: readonly Pod[], after: readonly Pod[]): readonly Counterparts[] {
  const [old, young] = [keysOf(before), keysOf(after)];
  const same = [...old].filter((key) => young.has(key)).map((key): Counterparts => ({ before: key, after: key }));
  const [oldWorkloads, youngWorkloads] = [byWorkload(before), byWorkload(after)];
  const others = [...new Set([...oldWorkloads.keys(), ...youngWorkloads.keys()])].flatMap((workload) => {
    const [all, allAfter] = [oldWorkloads.get(workload) ?? [], youngWorkloads.get(workload) ?? []];
    const [left, leftAfter] = [all.filter((key) => !young.has(key)), allAfter.filter((key) => !old.has(key))];
    return Array.from({ length: Math.max(left.length, leftAfter.length) }, (_, i): Counterparts => ({
      before: left[i] ?? all[0],
      after: leftAfter[i] ?? allAfter[0],
    }));
  });
  return [...same, ...others].sort((a, b) => (nameOf(a) < nameOf(b) ? -1 : 1));
}

function keysOf(pods: readonly Pod[]): ReadonlySet<string> {
  return new Set(pods.map(({ key }) => key));
}

function byWorkload(pods: readonly Pod[]): ReadonlyMap<string, readonly string[]> {
  const groups = Map.groupBy(pods, workloadKeyOf);
  return new Map([...groups].map(([workload, some]) => [workload, some.map(({ key }) => key).sort()]));
}

function nameOf({ before, after }: Counterparts): string {
  return after ?? before ?? "";
}

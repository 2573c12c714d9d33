import { nameOf } from "../../../objects/gate/gate.ts";
import type { ClusterObject } from "../../../objects/model.ts";
import { workloadKeyOf } from "../../../objects/workload_name.ts";
import type { Manifest } from "../manifests.ts";
import { renamedPod, standInName } from "../workload.ts";

/** Returns written objects and, for workloads without pods among them, pods that stand for their templates. */
export function withStandInPods(written: readonly Manifest[], templates: readonly Manifest[]): readonly Manifest[] {
  return [...written, ...withFreeNames(written, withoutPods(templates, written))];
}

/** Returns the pods of templates, except those of workloads with written pods. */
function withoutPods(templates: readonly Manifest[], written: readonly Manifest[]): readonly Manifest[] {
  const present = new Set(written.map(({ object }) => workloadKey(object)));
  return templates.filter(({ object }) => !present.has(workloadKey(object)));
}

function workloadKey(object: ClusterObject): string | undefined {
  return object.kind === "Pod" ? workloadKeyOf(object) : undefined;
}

/** Renames pods with a taken name. A StatefulSet's pod has its real name, unless another workload's pod has it. */
function withFreeNames(written: readonly Manifest[], templates: readonly Manifest[]): readonly Manifest[] {
  const taken = new Set(written.map(({ object }) => nameOf(object)));
  return templates.map((manifest): Manifest => {
    const { object } = manifest;
    if (object.kind !== "Pod" || object.controller === undefined || !taken.has(nameOf(object))) return manifest;
    const { kind, name } = object.controller;
    const ordinal = Number(object.name.slice(name.length + 1));
    return { ...manifest, object: renamedPod(object, standInName(name, kind, ordinal)) };
  });
}

import { copyFileSync, mkdirSync } from "node:fs";
import path from "node:path";
import * as v from "valibot";
import type { Materials } from "../cluster.ts";
import { ctr } from "../nodes.ts";
import { PROJECT } from "../place.ts";
import type { RunningCluster } from "../state.ts";

const DIRECTORY = "var/lib/kubelet/seccomp";
const FILE = "drawbridge.json";
/** The profile's errno for calls that it does not name, ENOSYS. The runtime's own profile has EPERM. */
const ENOSYS = 38;

const CONTAINER = v.object({
  Spec: v.object({ linux: v.object({ seccomp: v.object({ defaultErrnoRet: v.optional(v.number()) }) }) }),
});

/** Copies the profile to every node, as manifests/README.md says. */
export function copySeccompProfile({ nodes }: RunningCluster): void {
  for (const { directory } of nodes) {
    mkdirSync(path.join(directory, DIRECTORY), { recursive: true });
    copyFileSync(path.join(PROJECT, "manifests/seccomp", FILE), path.join(directory, DIRECTORY, FILE));
  }
}

/** Throws unless the daemon's container has our profile on every node. */
export function checkSeccomp({ nodes, settings }: RunningCluster, materials: Materials): void {
  for (const node of nodes) {
    const filter = 'labels."io.kubernetes.container.name"==policyd';
    const [container = ""] = ctr(settings, materials, node, ["containers", "list", "--quiet", filter]).split("\n");
    const { Spec } = v.parse(CONTAINER, JSON.parse(ctr(settings, materials, node, ["containers", "info", container])));
    if (Spec.linux.seccomp.defaultErrnoRet !== ENOSYS)
      throw new Error(`the daemon of ${node.name} has another profile`);
  }
}

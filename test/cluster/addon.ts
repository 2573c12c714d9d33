import { existsSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import type { Materials } from "./cluster.ts";
import { kubectl } from "./cluster.ts";
import { enter } from "./node/processes.ts";
import { PROJECT } from "./place.ts";
import { run } from "./run.ts";
import type { RunningCluster } from "./state.ts";

const ARCHIVE = path.join(PROJECT, "dist/drawbridge-image.tar");

/**
 * Installs the add-on as docs/guides/kubeadm.md says: the image is made and imported on every node, the manifest applied,
 * and the nodes waited for.
 *
 * @param manifest what kubectl applies: a file, or a directory with a kustomization
 */
export function installAddOn(
  { nodes }: RunningCluster,
  materials: Materials,
  say: (line: string) => void,
  manifest = path.join(PROJECT, "manifests/install.yaml"),
): void {
  run(process.execPath, ["test/setup/run.mjs", "image"], { cwd: PROJECT });
  if (!existsSync(ARCHIVE)) throw new Error(`npm run image made no ${ARCHIVE}`);
  for (const { first } of nodes) {
    enter("node", first, [materials.program("ctr"), "--namespace=k8s.io", "images", "import", ARCHIVE]);
  }
  kubectl(materials, ["apply", manifest.endsWith(".yaml") ? "-f" : "-k", manifest]);
  kubectl(materials, ["-n", "kube-system", "rollout", "status", "daemonset/drawbridge", "--timeout=120s"]);
  kubectl(materials, ["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s"]);
  kubectl(materials, ["-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s"]);
  say("the add-on is installed, the nodes are ready, and CoreDNS runs");
}

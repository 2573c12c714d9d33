import { existsSync } from "node:fs";
import path from "node:path";
import process from "node:process";
import { kubectl, type Materials } from "./cluster.ts";
import { ctr } from "./nodes.ts";
import { PROJECT } from "./place.ts";
import { run } from "./run.ts";
import type { RunningCluster } from "./state.ts";

/** The image that `npm run image` makes. */
export const ARCHIVE = path.join(PROJECT, "dist/drawbridge-image.tar");

/** The manifest that docs/guides/kubeadm.md applies. */
export const INSTALL = path.join(PROJECT, "manifests/install.yaml");

/**
 * Installs the add-on as docs/guides/kubeadm.md says: builds the image and imports it on every node, applies the
 * manifest, and waits for the nodes.
 *
 * @param manifest the argument of kubectl apply: a file, or a directory with a kustomization
 */
export function installAddOn(
  cluster: RunningCluster,
  materials: Materials,
  say: (line: string) => void,
  manifest = INSTALL,
): void {
  makeImage();
  importImage(cluster, materials, ARCHIVE);
  kubectl(materials, ["apply", manifest.endsWith(".yaml") ? "-f" : "-k", manifest]);
  waitForAddOn(materials);
  kubectl(materials, ["-n", "kube-system", "rollout", "status", "deployment/coredns", "--timeout=120s"]);
  say("the add-on is installed, the nodes are ready, and CoreDNS runs");
}

/** Builds the image, unless it was built from exactly these sources. */
export function makeImage(): void {
  run(process.execPath, ["test/setup/run.mjs", "image"], { cwd: PROJECT });
  if (!existsSync(ARCHIVE)) throw new Error(`npm run image made no ${ARCHIVE}`);
}

/** Imports the images of an archive on every node. */
export function importImage({ settings, nodes }: RunningCluster, materials: Materials, archive: string): void {
  for (const node of nodes) ctr(settings, materials, node, ["images", "import", archive]);
}

/** Waits until the last applied version of the add-on runs on every node, and every node is ready. */
export function waitForAddOn(materials: Materials): void {
  kubectl(materials, ["-n", "kube-system", "rollout", "status", "daemonset/drawbridge", "--timeout=180s"]);
  kubectl(materials, ["wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s"]);
}

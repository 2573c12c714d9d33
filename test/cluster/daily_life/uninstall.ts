import path from "node:path";
import { INSTALL } from "../addon.ts";
import { kubectl, type Materials } from "../cluster.ts";
import { PROJECT } from "../place.ts";

const CLEANUP = path.join(PROJECT, "manifests/cleanup");

/** The pods of a namespace with a label selector. */
export type Selected = readonly [namespace: string, selector: string];

/**
 * Follows docs/guides/uninstall.md to its end.
 *
 * @param attached every pod that the add-on has attached: the clean-up of a node finishes after the last of them
 */
export function uninstall(materials: Materials, attached: readonly Selected[]): void {
  kubectl(materials, ["delete", "--wait=true", "-f", INSTALL]);
  kubectl(materials, ["apply", "-k", CLEANUP]);
  for (const [namespace, selector] of attached) {
    kubectl(materials, ["-n", namespace, "delete", "pods", `--selector=${selector}`, "--timeout=120s"]);
  }
  kubectl(materials, ["-n", "kube-system", "rollout", "status", "daemonset/drawbridge-cleanup", "--timeout=120s"]);
  kubectl(materials, ["delete", "--wait=true", "-k", CLEANUP]);
}

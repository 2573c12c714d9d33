import { drawbridge, kubectl, type Materials } from "../cluster.ts";
import type { RunningCluster } from "../state.ts";

/**
 * Throws unless all that `drawbridge check` tries works in both families and leaves nothing, and `drawbridge bundle`
 * collects everything from each node.
 */
export function checkSupport(cluster: RunningCluster, materials: Materials): void {
  const text = drawbridge(cluster, materials, ["check", "--outside", "none"]);
  // Two families of four pairs of pods, two policies for each, the Service, its name and two node ports.
  if (!/^(\d+) of \1 are ok$/m.test(text) || !/that a policy denies +IPv6/.test(text))
    throw new Error(`check: ${text}`);
  const left = kubectl(materials, ["get", "namespaces", "--selector=app.kubernetes.io/managed-by=drawbridge-check"]);
  if (left.includes("drawbridge-check")) throw new Error(`check has left ${left}`);
  const archive = drawbridge(cluster, materials, ["bundle"]);
  for (const part of ["drawbridge_synced 1", '"isSynced": true', '"findings": [', '"fib_trie"'])
    if (!archive.includes(part)) throw new Error(`bundle: ${part} is missing`);
}

import { groupOf } from "../../../objects/gate/gate.ts";
import { nearestNames } from "../../../objects/nearest_names.ts";
import { workloadVersions } from "../workload.ts";

/** The kinds that answers depend on, with the version in which they are read. */
const READ: ReadonlyMap<string, string> = new Map([
  ["Namespace", "v1"],
  ["Node", "v1"],
  ["Pod", "v1"],
  ["Service", "v1"],
  ["EndpointSlice", "discovery.k8s.io/v1"],
  ["NetworkPolicy", "networking.k8s.io/v1"],
  ...workloadVersions(),
]);

/** The other kinds of Kubernetes' own groups. Nobody else may define kinds in these groups. */
const OTHERS: ReadonlyMap<string, readonly string[]> = new Map([
  [
    "",
    [
      "Binding",
      "ComponentStatus",
      "ConfigMap",
      "Endpoints",
      "Event",
      "LimitRange",
      "PersistentVolume",
      "PersistentVolumeClaim",
      "PodTemplate",
      "ResourceQuota",
      "Secret",
      "ServiceAccount",
    ],
  ],
  ["apps", ["ControllerRevision"]],
  ["batch", []],
  ["discovery.k8s.io", []],
  ["extensions", ["Ingress", "PodSecurityPolicy"]],
  ["networking.k8s.io", ["IPAddress", "Ingress", "IngressClass", "ServiceCIDR"]],
]);

/**
 * Returns what is wrong with a kind or a version that the API server does not have and that is probably meant to be one
 * on which answers depend, such as `Deploymnt` or Deployment of `v1`; undefined for any other kind.
 */
export function unknownKindText(apiVersion: string, kind: string): string | undefined {
  const others = OTHERS.get(groupOf(apiVersion));
  if (others === undefined || others.includes(kind)) return undefined;
  const expected = READ.get(kind);
  if (expected !== undefined) {
    return expected === apiVersion
      ? undefined
      : `${kind}: apiVersion ${JSON.stringify(apiVersion)}; expected ${expected}`;
  }
  const [nearest] = nearestNames(
    kind,
    [...READ.keys(), ...others].filter((name) => isAlike(name, kind)),
  );
  const version = READ.get(nearest ?? "");
  if (nearest === undefined || version === undefined) return undefined;
  const what = `kind ${JSON.stringify(kind)} of ${JSON.stringify(apiVersion)}`;
  return `${what}: the API has no such kind; probably ${nearest} of ${version} is meant`;
}

/** Returns whether a typing error may separate two names: it leaves the first letter, but for its case. */
function isAlike(a: string, b: string): boolean {
  return a[0]?.toLowerCase() === b[0]?.toLowerCase();
}

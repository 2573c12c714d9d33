import { Buffer } from "node:buffer";
import { listAt, textAt } from "../raw.ts";
import { type ApiServer, NoAnswer } from "./object_input.ts";

/** The API groups of policies that are not read, by group or group and version. */
const GROUPS: ReadonlyMap<string, string> = new Map([
  ["cilium.io", "Cilium's policies"],
  ["crd.projectcalico.org", "Calico's policies"],
  ["projectcalico.org", "Calico's policies"],
  ["crd.antrea.io", "Antrea's policies"],
  ["networking.k8s.aws", "Amazon's ApplicationNetworkPolicies"],
  ["network.openshift.io", "OpenShift's EgressNetworkPolicies"],
  ["kubeovn.io", "Kube-OVN's networks"],
  ["k8s.ovn.org", "OVN-Kubernetes' networks and firewalls"],
  ["security.istio.io", "Istio's AuthorizationPolicies"],
  ["policy.linkerd.io", "Linkerd's policies"],
  ["policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicies"],
]);

/** Returns notes about policies that a cluster may have and that are not read, by one request for its API groups. */
export async function otherEngines(server: ApiServer): Promise<readonly string[]> {
  try {
    const { status, body } = await server.get("/apis");
    const groups = status === 200 ? listAt(JSON.parse(Buffer.concat(body).toString()), "groups") : [];
    const names = groups.flatMap((group) => [
      textAt(group, "name"),
      ...listAt(group, "versions").map((version) => textAt(version, "groupVersion")),
    ]);
    const found = new Set(names.flatMap((name) => GROUPS.get(name ?? "") ?? []));
    const unknown =
      status === 200 ? [] : [`/apis: status ${status}: whether there are policies of other engines is not known`];
    return [
      ...unknown,
      ...[...found].map(
        (what) => `the cluster knows ${what}: they are not read, and may deny what is allowed here, or allow more`,
      ),
    ];
  } catch (error) {
    if (!(error instanceof NoAnswer || error instanceof SyntaxError)) throw error;
    return [`/apis: ${error.message}: whether there are policies of other engines is not known`];
  }
}

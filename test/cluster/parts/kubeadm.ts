import { stringify } from "yaml";
import { inOrder, type NodePlan, PREFIXES, type Settings } from "../settings.ts";

/** Returns the configuration by which kubeadm makes certificates, kubeconfigs and the DNS add-on. */
export function kubeadmConfiguration(settings: Settings, version: string, controlPlane: NodePlan): string {
  const [address] = inOrder(settings, controlPlane.addresses);
  const configurations = [
    {
      apiVersion: "kubeadm.k8s.io/v1beta4",
      kind: "InitConfiguration",
      localAPIEndpoint: { advertiseAddress: address, bindPort: 6443 },
      nodeRegistration: { name: controlPlane.name },
    },
    {
      apiVersion: "kubeadm.k8s.io/v1beta4",
      kind: "ClusterConfiguration",
      kubernetesVersion: version,
      networking: {
        podSubnet: inOrder(settings, PREFIXES.pods).join(","),
        serviceSubnet: inOrder(settings, PREFIXES.services).join(","),
      },
    },
  ];
  return configurations.map((one) => stringify(one)).join("---\n");
}

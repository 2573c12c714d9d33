import { stringify } from "yaml";
import { inOrder, type NodePlan, PREFIXES, type Settings } from "../settings.ts";

/** Returns the address of the DNS Service: the tenth of the first family's range, as with kubeadm. */
export function clusterDns(settings: Settings): string {
  const [prefix = ""] = inOrder(settings, PREFIXES.services);
  const [base = ""] = prefix.split("/");
  return settings.firstFamily === 4 ? base.replace(/\.0$/, ".10") : `${base}a`;
}

/** Returns the kubelet's configuration as kubeadm writes it, with the additions for a node in namespaces. */
export function kubeletConfiguration(settings: Settings): string {
  return stringify({
    apiVersion: "kubelet.config.k8s.io/v1beta1",
    kind: "KubeletConfiguration",
    authentication: {
      anonymous: { enabled: false },
      webhook: { enabled: true },
      x509: { clientCAFile: "/etc/kubernetes/pki/ca.crt" },
    },
    authorization: { mode: "Webhook" },
    cgroupDriver: "cgroupfs",
    clusterDNS: [clusterDns(settings)],
    clusterDomain: "cluster.local",
    containerRuntimeEndpoint: "unix:///run/containerd/containerd.sock",
    resolvConf: "/etc/resolv.conf",
    // Some machines still have cgroup v1.
    failCgroupV1: false,
    // The kubelet needs CAP_SYS_RESOURCE to lower its own value.
    oomScoreAdj: 0,
    // The disk belongs to the machine, and its usage does not concern the test.
    evictionHard: { "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
    imageGCHighThresholdPercent: 100,
    failSwapOn: false,
    // Shorter than the default, so that tests of this small cluster do not wait long.
    nodeStatusUpdateFrequency: "5s",
  });
}

/** Returns the kubelet's arguments. */
export function kubeletArguments(settings: Settings, node: NodePlan): readonly string[] {
  return [
    "--kubeconfig=/etc/kubernetes/kubelet.conf",
    "--config=/var/lib/kubelet/config.yaml",
    `--hostname-override=${node.name}`,
    `--node-ip=${inOrder(settings, node.addresses).join(",")}`,
    `--node-labels=topology.kubernetes.io/zone=${node.zone}`,
  ];
}

import { stringify } from "yaml";
import type { NodePlan, Settings } from "../settings.ts";
import { inOrder, PREFIXES } from "../settings.ts";

/** The address of the DNS Service: the tenth of the first family's range, as kubeadm has it. */
export function clusterDns(settings: Settings): string {
  const [prefix = ""] = inOrder(settings, PREFIXES.services);
  const [base = ""] = prefix.split("/");
  return settings.firstFamily === 4 ? base.replace(/\.0$/, ".10") : `${base}a`;
}

/** Returns the kubelet's configuration, as kubeadm writes it, with what a node within namespaces needs besides. */
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
    // cgroup v1 is still what some machines have.
    failCgroupV1: false,
    // Lowering its own value needs CAP_SYS_RESOURCE.
    oomScoreAdj: 0,
    // The disk is the machine's, and its fill is not a matter of the test.
    evictionHard: { "memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%" },
    imageGCHighThresholdPercent: 100,
    failSwapOn: false,
    // An idle cluster of this size shall not be idle for long.
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

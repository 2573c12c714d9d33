import { inOrder, type NodePlan, PREFIXES, type Settings } from "../settings.ts";

/** A program of the control plane with its arguments; its executable is found by name among the built ones. */
export interface ControlPlaneProgram {
  readonly name: "etcd" | "kube-apiserver" | "kube-controller-manager" | "kube-scheduler";
  readonly args: readonly string[];
}

const PKI = "/etc/kubernetes/pki";

/**
 * Returns the programs of the control plane in the order in which they start, with the arguments that kubeadm would
 * write into their static pods, except those that matter only for several control planes.
 */
export function controlPlane(settings: Settings, node: NodePlan): readonly ControlPlaneProgram[] {
  const [address = ""] = inOrder(settings, node.addresses);
  const pods = inOrder(settings, PREFIXES.pods).join(",");
  const services = inOrder(settings, PREFIXES.services).join(",");
  return [
    {
      name: "etcd",
      args: [
        "--name=default",
        "--data-dir=/var/lib/etcd",
        "--unsafe-no-fsync",
        "--listen-client-urls=http://127.0.0.1:2379",
        "--advertise-client-urls=http://127.0.0.1:2379",
        "--listen-peer-urls=http://127.0.0.1:2380",
      ],
    },
    {
      name: "kube-apiserver",
      args: [
        `--advertise-address=${address}`,
        "--allow-privileged=true",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--enable-bootstrap-token-auth=true",
        "--etcd-servers=http://127.0.0.1:2379",
        `--client-ca-file=${PKI}/ca.crt`,
        `--kubelet-client-certificate=${PKI}/apiserver-kubelet-client.crt`,
        `--kubelet-client-key=${PKI}/apiserver-kubelet-client.key`,
        "--kubelet-preferred-address-types=InternalIP,Hostname",
        `--proxy-client-cert-file=${PKI}/front-proxy-client.crt`,
        `--proxy-client-key-file=${PKI}/front-proxy-client.key`,
        "--requestheader-allowed-names=front-proxy-client",
        `--requestheader-client-ca-file=${PKI}/front-proxy-ca.crt`,
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
        "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
        `--service-account-key-file=${PKI}/sa.pub`,
        `--service-account-signing-key-file=${PKI}/sa.key`,
        `--service-cluster-ip-range=${services}`,
        `--tls-cert-file=${PKI}/apiserver.crt`,
        `--tls-private-key-file=${PKI}/apiserver.key`,
      ],
    },
    {
      name: "kube-controller-manager",
      args: [
        "--kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--authentication-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--authorization-kubeconfig=/etc/kubernetes/controller-manager.conf",
        "--allocate-node-cidrs=true",
        `--cluster-cidr=${pods}`,
        `--service-cluster-ip-range=${services}`,
        `--client-ca-file=${PKI}/ca.crt`,
        `--cluster-signing-cert-file=${PKI}/ca.crt`,
        `--cluster-signing-key-file=${PKI}/ca.key`,
        `--requestheader-client-ca-file=${PKI}/front-proxy-ca.crt`,
        `--root-ca-file=${PKI}/ca.crt`,
        `--service-account-private-key-file=${PKI}/sa.key`,
        "--controllers=*,bootstrapsigner,tokencleaner",
        "--use-service-account-credentials=true",
        "--leader-elect=false",
      ],
    },
    {
      name: "kube-scheduler",
      args: [
        "--kubeconfig=/etc/kubernetes/scheduler.conf",
        "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
        "--leader-elect=false",
      ],
    },
  ];
}

import { copyFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { stringify } from "yaml";
import { ADMINISTRATOR, type Materials } from "../cluster.ts";
import { enter, startInside } from "../node/processes.ts";
import { STATE } from "../place.ts";
import { until } from "../run.ts";
import { inOrder, PREFIXES } from "../settings.ts";
import type { RunningCluster } from "../state.ts";

const KUBECONFIG = "/etc/kubernetes/kube-proxy.conf";
const CONFIGURATION = "/etc/kubernetes/kube-proxy.yaml";

/** Starts the real kube-proxy on every node, with the configuration that kubeadm gives it. */
export async function startKubeProxies(
  { nodes, settings }: RunningCluster,
  { program }: Materials,
  mode: "iptables" | "nftables",
): Promise<void> {
  for (const { name, first, directory } of nodes) {
    copyFileSync(ADMINISTRATOR, path.join(directory, KUBECONFIG));
    writeFileSync(
      path.join(directory, CONFIGURATION),
      stringify({
        apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
        kind: "KubeProxyConfiguration",
        mode,
        hostnameOverride: name,
        clusterCIDR: inOrder(settings, PREFIXES.pods).join(","),
        clientConnection: { kubeconfig: KUBECONFIG },
        // The sizes of connection tracking belong to the machine.
        conntrack: { maxPerCore: 0, min: 0 },
      }),
    );
    startInside(
      first,
      [program("kube-proxy"), `--config=${CONFIGURATION}`],
      path.join(STATE, `${name}-kube-proxy.log`),
    );
  }
  for (const { name, first } of nodes) {
    const answer = ["curl", "--silent", "--fail", "http://localhost:10249/proxyMode"];
    await until(
      `kube-proxy of ${name} in mode ${mode}`,
      () => (enter("node", first, answer) === mode ? true : undefined),
      60,
    );
  }
}

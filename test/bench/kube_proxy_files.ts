import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";

/** The options of a kube-proxy in nftables mode. */
export interface KubeProxyOptions {
  readonly nodeName: string;
  readonly clusterCidr: string;
  /** Fields of the kubeconfig: the API server, and the user. */
  readonly cluster: Readonly<Record<string, string>>;
  readonly user: Readonly<Record<string, string>>;
  /** Fields of the connection to the API server, in addition to the kubeconfig. */
  readonly connection?: Readonly<Record<string, string | number>>;
  /** Further fields of the configuration. */
  readonly fields: Readonly<Record<string, unknown>>;
}

/** Writes the files of a kube-proxy into a directory, which it makes. @returns the path of its configuration */
export function writeKubeProxyFiles(directory: string, options: KubeProxyOptions): string {
  const { nodeName, clusterCidr, cluster, user, connection, fields } = options;
  mkdirSync(directory, { recursive: true });
  const kubeconfig = path.join(directory, "kubeconfig.json");
  const configuration = path.join(directory, "kube-proxy.json");
  const access = {
    apiVersion: "v1",
    kind: "Config",
    clusters: [{ name: "bench", cluster }],
    contexts: [{ name: "bench", context: { cluster: "bench", user: "bench" } }],
    users: [{ name: "bench", user }],
    "current-context": "bench",
  };
  writeFileSync(kubeconfig, JSON.stringify(access));
  const object = {
    apiVersion: "kubeproxy.config.k8s.io/v1alpha1",
    kind: "KubeProxyConfiguration",
    mode: "nftables",
    hostnameOverride: nodeName,
    clusterCIDR: clusterCidr,
    bindAddress: "0.0.0.0",
    clientConnection: { kubeconfig, ...connection },
    ...fields,
  };
  writeFileSync(configuration, JSON.stringify(object));
  return configuration;
}

/**
 * Options for rows that compare rules: kube-proxy does not change the machine's settings, and its requests are not
 * limited.
 */
export const UNHINDERED = {
  connection: { contentType: "application/json", qps: 1000, burst: 1000 },
  fields: {
    detectLocalMode: "ClusterCIDR",
    conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: "0s", tcpCloseWaitTimeout: "0s" },
    nftables: { minSyncPeriod: "1ms", syncPeriod: "1h" },
  },
} as const;

import { tryUrl } from "../../../configuration/schema.ts";
import { attempt, DrawbridgeError } from "../../../../kernel/error.ts";
import { readObjects } from "../../../../objects/yaml/documents.ts";
import { member } from "../json_member.ts";

/** The paths of the kubelet's kubeconfig in several distributions; a node has one of them. */
export const KUBELET_KUBECONFIGS: readonly string[] = [
  // kubeadm, kind, and most others.
  "/etc/kubernetes/kubelet.conf",
  // Bottlerocket, also as a node of EKS.
  "/etc/kubernetes/kubelet/kubeconfig",
  "/var/lib/rancher/rke2/agent/kubelet.kubeconfig",
  "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
  "/var/lib/k0s/kubelet.conf",
  // EKS, GKE, AKS.
  "/var/lib/kubelet/kubeconfig",
  "/var/snap/microk8s/current/credentials/kubelet.config",
];

/** The environment variable that every pod gets. */
const VARIABLE = "KUBERNETES_SERVICE_HOST";

/** The places where the address of the API server may be found. */
export interface AddressPlaces {
  /** The configuration's field. */
  readonly apiServer: URL | undefined;
  /** The configured kubeconfig of the kubelet; undefined to use the first existing {@link KUBELET_KUBECONFIGS}. */
  readonly kubeletKubeconfig: string | undefined;
  /** Returns the text of a file; undefined where it does not exist. @throws DrawbridgeError when it cannot be read */
  readonly readText: (path: string) => string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** An address of the API server, and where it was found. */
export interface FoundAddress {
  readonly url: URL;
  readonly origin:
    | { readonly type: "configuration" }
    | { readonly type: "kubelet"; readonly path: string }
    /** The ClusterIP of the Service `kubernetes`; `missing` are the paths where no kubeconfig was found. */
    | { readonly type: "variable"; readonly missing: readonly string[] };
}

/**
 * Finds the API server's address (SVC-25): the configuration's, else the one that the node's kubelet uses, else the one
 * in the variables that every pod gets. Those name the ClusterIP of the Service `kubernetes`, which does not help on a
 * node where only Drawbridge serves Services.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION naming all three places where none has an address
 */
export function apiAddress({ apiServer, kubeletKubeconfig, readText, environment }: AddressPlaces): FoundAddress {
  if (apiServer !== undefined) return { url: apiServer, origin: { type: "configuration" } };
  const paths = kubeletKubeconfig === undefined ? KUBELET_KUBECONFIGS : [kubeletKubeconfig];
  for (const path of paths) {
    const text = readText(path);
    if (text !== undefined) return { url: serverOf(path, text), origin: { type: "kubelet", path } };
  }
  const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "443" } = environment;
  const url = tryUrl(`https://${host.includes(":") ? `[${host}]` : host}:${port}`);
  if (host !== "" && url !== undefined) return { url, origin: { type: "variable", missing: paths } };
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `apiServer: missing, there is no ${paths.join(", no ")} and no ${VARIABLE}; expected the API server's ` +
      'address such as "https://192.0.2.1:6443": give it as --api-server, or files by --objects',
  );
}

/** Returns the log's text about an address: where it was found, and what to do if that is the last resort. */
export function foundText({ url, origin }: FoundAddress): string {
  switch (origin.type) {
    case "configuration":
      return `${url.origin}, given as apiServer`;
    case "kubelet":
      return `${url.origin}, read from ${origin.path}`;
    case "variable":
      return (
        `${url.origin}, given by ${VARIABLE}: no kubeconfig of the kubelet was found (${origin.missing.join(", ")}). This is the ` +
        "address of a Service, which does not answer where kube-proxy is absent and Drawbridge has not read the Services yet: " +
        "give apiServer, or mount the kubelet's kubeconfig"
      );
  }
}

/** Returns the server of the current context, or of the only cluster. Nothing else in the file is used. */
function serverOf(path: string, text: string): URL {
  // The error's message is omitted: it may quote the text, which contains secrets.
  const [config] = attempt<readonly unknown[]>(
    () => [...readObjects(text, path)],
    () => {
      throw new DrawbridgeError("ERR_CONFIGURATION", `${path}: no YAML; expected a kubeconfig: give apiServer instead`);
    },
  );
  const clusters = listOf(member(config, "clusters"));
  const context = listOf(member(config, "contexts")).find(
    (one) => member(one, "name") === member(config, "current-context"),
  );
  const wanted = member(context, "context", "cluster");
  const cluster = clusters.length === 1 ? clusters[0] : clusters.find((one) => member(one, "name") === wanted);
  const server = member(cluster, "cluster", "server");
  const url = typeof server === "string" ? tryUrl(server) : undefined;
  if (url !== undefined) return url;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `${path}: no server in its current context; expected the kubelet's kubeconfig: give apiServer instead`,
  );
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

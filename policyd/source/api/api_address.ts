import { DrawbridgeError } from "../../../kernel/error.ts";
import { readObjects } from "../documents.ts";
import { member } from "./member.ts";

/** The places where distributions have the kubelet's kubeconfig; a node has one of them. */
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

/** The variable that every pod gets. */
const VARIABLE = "KUBERNETES_SERVICE_HOST";

/** Where it may stand under which address the API server is. */
export interface AddressPlaces {
  /** Of the configuration. */
  readonly apiServer: URL | undefined;
  /** The kubelet's kubeconfig of the configuration; undefined for the first of {@link KUBELET_KUBECONFIGS} that is there. */
  readonly kubeletKubeconfig: string | undefined;
  /** The text of a file; undefined where there is none. @throws DrawbridgeError when it cannot be read */
  readonly readText: (path: string) => string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/** An address of the API server, and where it was found. */
export interface FoundAddress {
  readonly url: URL;
  readonly origin:
    | { readonly type: "configuration" }
    | { readonly type: "kubelet"; readonly path: string }
    /** The ClusterIP of the Service `kubernetes`; `missing` are the kubeconfigs that were looked for. */
    | { readonly type: "variable"; readonly missing: readonly string[] };
}

/**
 * Finds the API server's address (SVC-25): the configuration's, else the one that the node's kubelet uses, else the variables
 * that every pod gets. Those name the ClusterIP of the Service `kubernetes`, which is of no use on a node where nobody but us
 * makes it work.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION naming all three where none says it
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

/** How the log reports an address: where it was found, and what to do where that is the last resort. */
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

/** What a text is as the address of an API server; undefined for anything but http(s) with a host. */
export function tryUrl(text: string): URL | undefined {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isWeb = url?.protocol === "https:" || url?.protocol === "http:";
  return isWeb && url.username === "" && url.search === "" && url.hash === "" ? url : undefined;
}

/** The server of the current context, or of the only cluster. Nothing else of the file is looked at. */
function serverOf(path: string, text: string): URL {
  const [config] = attempt(path, () => [...readObjects(text, path)]);
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

function attempt<T>(path: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    if (!(error instanceof DrawbridgeError)) throw error;
    // Not its message: it may quote the text, which has secrets in it.
    throw new DrawbridgeError("ERR_CONFIGURATION", `${path}: no YAML; expected a kubeconfig: give apiServer instead`);
  }
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

import { DrawbridgeError } from "../../../kernel/error.ts";
import { readObjects } from "../documents.ts";
import { member } from "./member.ts";

/** Where it may stand under which address the API server is. */
export interface AddressPlaces {
  /** Of the configuration. */
  readonly apiServer: URL | undefined;
  /** Path of the kubelet's kubeconfig. */
  readonly kubeletKubeconfig: string;
  /** The text of a file; undefined where there is none. @throws DrawbridgeError when it cannot be read */
  readonly readText: (path: string) => string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
}

/**
 * The API server's address (SVC-25): what the configuration says, else what the node's kubelet uses, else the variables
 * that every pod gets. Those name the ClusterIP of the Service `kubernetes`, which is of no use on a node where nobody but us
 * makes it work.
 *
 * @throws DrawbridgeError ERR_CONFIGURATION naming all three where none says it
 */
export function apiAddress({ apiServer, kubeletKubeconfig, readText, environment }: AddressPlaces): URL {
  if (apiServer !== undefined) return apiServer;
  const text = readText(kubeletKubeconfig);
  if (text !== undefined) return serverOf(kubeletKubeconfig, text);
  const { KUBERNETES_SERVICE_HOST: host = "", KUBERNETES_SERVICE_PORT: port = "443" } = environment;
  const url = tryUrl(`https://${host.includes(":") ? `[${host}]` : host}:${port}`);
  if (host !== "" && url !== undefined) return url;
  throw new DrawbridgeError(
    "ERR_CONFIGURATION",
    `apiServer: missing, there is no ${kubeletKubeconfig} and no KUBERNETES_SERVICE_HOST; expected the API server's ` +
      'address such as "https://192.0.2.1:6443": give it as --api-server, or files by --objects',
  );
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

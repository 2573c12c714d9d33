import type { OutgoingHttpHeaders } from "node:http";
import type { RequestOptions } from "node:https";
import type { KubeConfig } from "./kubeconfig_library.ts";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import { printable } from "../../../../objects/printable.ts";

/** The server that client-node returns when it finds no kubeconfig at all. */
const FALLBACK_SERVER = "http://localhost:8080";

/** Hosts that are this machine. */
const LOCAL = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/** The choice of a kubeconfig and of a context in it. */
export interface KubeconfigChoice {
  /** A path; undefined for kubectl's choice: KUBECONFIG, ~/.kube/config, a pod's service account. */
  readonly kubeconfig: string | undefined;
  /** One of the kubeconfig's contexts; undefined for its current one. */
  readonly context: string | undefined;
}

/** The address of the API server, and the credentials for requests. */
export interface Credentials {
  readonly server: URL;
  /** Authorization, certificates and proxy, from client-node. */
  readonly options: Omit<RequestOptions, "headers"> & { readonly headers: OutgoingHttpHeaders };
}

/**
 * Returns the credentials of one context of a kubeconfig. The library is imported only here: no other caller waits for
 * it or has it in memory.
 *
 * @throws DrawbridgeError ERR_INPUT for a kubeconfig that cannot be used; secrets are not in the message
 */
export async function credentialsOf({ kubeconfig, context }: KubeconfigChoice): Promise<Credentials> {
  const { config, name } = await loadConfig({ kubeconfig, context });
  const current = chosenContext(name, config.getContexts(), config.getCurrentContext());
  const cluster = config.getCluster(current.cluster);
  if (cluster === null) throw unusable(name, `context ${quoted(current.name)}: no cluster ${quoted(current.cluster)}`);
  if (kubeconfig === undefined && cluster.server === FALLBACK_SERVER && cluster.name === "cluster") {
    throw unusable(name, "there is none; give one by --kubeconfig or in KUBECONFIG");
  }
  const server = attempt(name, () => new URL(cluster.server));
  const user = config.getUser(current.user);
  if (user === null && Boolean(current.user)) {
    throw unusable(name, `context ${quoted(current.name)}: no user ${quoted(current.user)}`);
  }
  // Without any user client-node would omit the cluster's certificates, too.
  // `kubectl proxy` serves this machine without TLS, of which client-node wants to know that it is not checked.
  const isLocal = server.protocol === "http:" && LOCAL.test(server.hostname);
  if (user === null || isLocal) {
    config.loadFromClusterAndUser(
      { ...cluster, ...(isLocal ? { skipTLSVerify: true } : {}) },
      user ?? { name: "anonymous" },
    );
  }
  const options = { headers: {} };
  try {
    await config.applyToHTTPSOptions(options);
  } catch (error) {
    throw unusable(name, `context ${quoted(current.name)}: ${firstLine(error)}`, error);
  }
  return { server, options };
}

/**
 * Returns the namespace of a context, which is `default` where it names none.
 *
 * @throws DrawbridgeError ERR_INPUT for a kubeconfig without such a context
 */
export async function namespaceOf(choice: KubeconfigChoice): Promise<string> {
  const { config, name } = await loadConfig(choice);
  const { namespace } = chosenContext(name, config.getContexts(), config.getCurrentContext());
  return namespace ? namespace : "default";
}

async function loadConfig({
  kubeconfig,
  context,
}: KubeconfigChoice): Promise<{ readonly config: KubeConfig; readonly name: string }> {
  const library = await import("./kubeconfig_library.ts");
  const name = kubeconfig ?? "kubeconfig";
  const config = new library.KubeConfig();
  // Among several files in KUBECONFIG the first one determines the current context, as for kubectl.
  attempt(name, () => (kubeconfig === undefined ? config.loadFromDefault({}, true) : config.loadFromFile(kubeconfig)));
  if (context !== undefined) config.setCurrentContext(context);
  return { config, name };
}

function chosenContext<C extends { readonly name: string }>(
  kubeconfig: string,
  contexts: readonly C[],
  wanted: string | undefined,
): C {
  if (contexts.length === 0) throw unusable(kubeconfig, "no contexts; expected a kubeconfig with one");
  const names = contexts.map(({ name }) => name).join(", ");
  if (!wanted) throw unusable(kubeconfig, `no current context; give one of ${names} by --context`);
  const found = contexts.find(({ name }) => name === wanted);
  if (found === undefined) throw unusable(kubeconfig, `no context ${quoted(wanted)}; expected one of ${names}`);
  return found;
}

function attempt<T>(kubeconfig: string, read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw unusable(kubeconfig, firstLine(error), error);
  }
}

function unusable(kubeconfig: string, reason: string, cause?: unknown): DrawbridgeError {
  return new DrawbridgeError("ERR_INPUT", printable(`${kubeconfig}: ${reason}`), { cause });
}

/**
 * Returns the first line of an error's message, without secrets: the YAML library quotes the lines around a mistake
 * after its first line, and a SyntaxError quotes the output of a credential program that is not JSON.
 */
function firstLine(error: unknown): string {
  if (error instanceof SyntaxError) return "the program for its credentials prints no JSON";
  const [first = ""] = (error instanceof Error ? error.message : String(error)).split("\n");
  return first === "" ? "its credentials cannot be had" : first;
}

function quoted(name: string): string {
  return JSON.stringify(name);
}

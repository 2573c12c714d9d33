import https from "node:https";
import { DrawbridgeError } from "../../../../kernel/error.ts";
import type { Credentials } from "./kubeconfig.ts";

/** A service account as the kubelet mounts it into a pod: the files `token` and `ca.crt`. */
export class ServiceAccount {
  readonly #directory: string;
  readonly #readText: (path: string) => string | undefined;
  /** Holds connections, so it is reused as long as the certificate authority is the same. */
  #agent: { readonly ca: string; readonly agent: https.Agent } | undefined;

  constructor(directory: string, readText: (path: string) => string | undefined) {
    this.#directory = directory;
    this.#readText = readText;
  }

  /**
   * Returns the credentials for a server. Each call reads the token: the kubelet replaces it long before it expires.
   *
   * @throws DrawbridgeError ERR_CONFIGURATION naming the file that is missing
   */
  credentials(server: URL): Credentials {
    const Authorization = `Bearer ${this.#file("token").trim()}`;
    // Without TLS anyone on the path could read the token.
    if (server.protocol !== "https:")
      throw new DrawbridgeError("ERR_CONFIGURATION", `${server.origin}: expected https`);
    const ca = this.#file("ca.crt");
    if (this.#agent?.ca !== ca) {
      this.#agent?.agent.destroy();
      this.#agent = { ca, agent: new https.Agent({ ca, keepAlive: true }) };
    }
    return { server, options: { headers: { Authorization }, agent: this.#agent.agent } };
  }

  #file(name: string): string {
    const path = `${this.#directory}/${name}`;
    const text = this.#readText(path);
    if (text !== undefined && text !== "") return text;
    throw new DrawbridgeError(
      "ERR_CONFIGURATION",
      `${path}: missing; expected the files of a service account: run as a pod, or give --kubeconfig or --objects`,
    );
  }
}

import type { KubeconfigChoice } from "../../../policyd/source/api/kubeconfig.ts";
import type { ClusterAccess } from "./access.ts";

/** Running clusters, as far as the command line reads them. */
export interface ObjectInput {
  /** @throws DrawbridgeError ERR_INPUT for a kubeconfig that names no server, or nobody who could ask it */
  connect(access: ClusterAccess): Promise<ApiServer>;
  /**
   * Returns the namespace of the kubeconfig's context, which is `default` where it names none.
   *
   * @throws DrawbridgeError as {@link connect}
   */
  namespaceOf(choice: KubeconfigChoice): Promise<string>;
  /** Time passes. */
  sleep(milliseconds: number): Promise<void>;
}

/** An API server, asked as one user. */
export interface ApiServer {
  /** Its address as messages have it, without a user or a password. */
  readonly name: string;
  /**
   * One GET request.
   *
   * @param path with its query, below the server's address
   * @returns what the server answered, whatever it is
   * @throws NoAnswer where there is none, or not all of it
   */
  get(path: string): Promise<ApiResponse>;
}

export interface ApiResponse {
  readonly status: number;
  /** The header Retry-After. */
  readonly retryAfter: string | undefined;
  readonly body: readonly Uint8Array[];
}

/** A request to which no whole answer came; the message says why. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  readonly wayOut: string;

  constructor(message: string, wayOut: string, options?: ErrorOptions) {
    super(message, options);
    this.wayOut = wayOut;
  }
}

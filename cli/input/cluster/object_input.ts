import type { KubeconfigChoice } from "../../../policyd/sources/api/connection/kubeconfig.ts";
import type { ClusterAccess } from "./access.ts";

/** Reads running clusters. */
export interface ObjectInput {
  /** Returns the server. @throws DrawbridgeError ERR_INPUT for a kubeconfig without a server or usable credentials */
  connect(access: ClusterAccess): Promise<ApiServer>;
  /**
   * Returns the namespace of the kubeconfig's context, or `default` where it names none.
   *
   * @throws DrawbridgeError as {@link connect}
   */
  namespaceOf(choice: KubeconfigChoice): Promise<string>;
  /** Waits. */
  sleep(milliseconds: number): Promise<void>;
}

/** An API server with the credentials of one user. */
export interface ApiServer {
  /** Its address for messages, without a user or a password. */
  readonly name: string;
  /**
   * Sends one GET request.
   *
   * @param path with its query, below the server's address
   * @returns the server's answer, whatever its status
   * @throws NoAnswer where no answer came, or not all of it
   */
  get(path: string): Promise<ApiResponse>;
}

export interface ApiResponse {
  readonly status: number;
  /** The value of the header Retry-After. */
  readonly retryAfter: string | undefined;
  readonly body: readonly Uint8Array[];
}

/** A request that got no complete answer; the message says why. */
export class NoAnswer extends Error {
  override readonly name = "NoAnswer";
  readonly wayOut: string;

  constructor(message: string, wayOut: string, options?: ErrorOptions) {
    super(message, options);
    this.wayOut = wayOut;
  }
}

import { Buffer } from "node:buffer";
import http2, { type ClientHttp2Session } from "node:http2";
import { connect } from "node:net";
import { encodeMessage, firstText, type Message } from "./protobuf.ts";

const SERVICE = "/runtime.v1.RuntimeService";
/**
 * The size of a gRPC message's prefix, which says whether it is compressed, and its length (gRPC over HTTP/2,
 * "Length-Prefixed-Message").
 */
const PREFIX_BYTES = 5;
/** NamespaceMode NODE of the CRI. */
const NODE = 2;

/** A pod in the form in which the kubelet requests it from a container runtime. */
export interface SandboxRequest {
  readonly name: string;
  readonly uid: string;
  readonly cgroupParent: string;
  readonly isOnHostNetwork: boolean;
}

/** A client of the Kubernetes container runtime interface (cri-api, runtime/v1), for sandboxes only. */
export class ContainerRuntime implements Disposable {
  readonly #socket: string;
  #connection: ClientHttp2Session | undefined;

  /** @param socket the runtime's Unix socket, to which the first call connects */
  constructor(socket: string) {
    this.#socket = socket;
  }

  /** Starts a sandbox. @returns its ID once it is ready, with its network */
  async run({ name, uid, cgroupParent, isOnHostNetwork }: SandboxRequest): Promise<string> {
    const namespaces: Message = isOnHostNetwork ? { 1: NODE } : {};
    const metadata = { 1: name, 2: uid, 3: "default" };
    const reply = await this.#call("RunPodSandbox", {
      1: { 1: metadata, 2: isOnHostNetwork ? "" : name, 8: { 1: cgroupParent, 2: { 1: namespaces } } },
    });
    const id = firstText(reply);
    if (id === undefined) throw new Error(`RunPodSandbox ${name}: no ID in the reply`);
    return id;
  }

  /** Ends a sandbox's processes and its network. */
  async stop(id: string): Promise<void> {
    await this.#call("StopPodSandbox", { 1: id });
  }

  async remove(id: string): Promise<void> {
    await this.#call("RemovePodSandbox", { 1: id });
  }

  [Symbol.dispose](): void {
    this.#connection?.destroy();
  }

  get #session(): ClientHttp2Session {
    if (this.#connection === undefined || this.#connection.destroyed) {
      this.#connection = http2.connect("http://localhost", { createConnection: () => connect(this.#socket) });
      // Calls that are under way fail by themselves.
      this.#connection.on("error", () => {});
    }
    return this.#connection;
  }

  #call(method: string, message: Message): Promise<Buffer> {
    const content = encodeMessage(message);
    const prefix = Buffer.alloc(PREFIX_BYTES);
    prefix.writeUInt32BE(content.length, 1);
    return new Promise((resolve, reject) => {
      const stream = this.#session.request({
        ":method": "POST",
        ":path": `${SERVICE}/${method}`,
        "content-type": "application/grpc",
        te: "trailers",
      });
      const parts: Buffer[] = [];
      let status: unknown;
      let words: unknown = "no status";
      const learn = (headers: Readonly<Record<string, unknown>>): void => {
        status ??= headers["grpc-status"];
        words = headers["grpc-message"] ?? words;
      };
      stream.on("response", learn).on("trailers", learn);
      stream.on("data", (part: Buffer) => parts.push(part)).on("error", reject);
      stream.on("close", () => {
        if (status === "0") resolve(Buffer.concat(parts).subarray(PREFIX_BYTES));
        else reject(new Error(`${method}: gRPC status ${String(status)}: ${String(words)}`));
      });
      stream.end(Buffer.concat([prefix, content]));
    });
  }
}

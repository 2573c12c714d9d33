import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { LabNamespace } from "../../lab/namespace.ts";

/** The kinds that kube-proxy reads, by the last part of their path. */
export type Resource = "services" | "endpointslices" | "nodes" | "servicecidrs";

const kinds: Readonly<Record<Resource, { readonly apiVersion: string; readonly kind: string }>> = {
  services: { apiVersion: "v1", kind: "Service" },
  endpointslices: { apiVersion: "discovery.k8s.io/v1", kind: "EndpointSlice" },
  nodes: { apiVersion: "v1", kind: "Node" },
  servicecidrs: { apiVersion: "networking.k8s.io/v1", kind: "ServiceCIDR" },
};

/** The version of every object: nobody writes an object here, and no version is ever too old. */
const VERSION = "1";

/**
 * The part of an API server that kube-proxy needs: lists and watches, whatever the selector, and events that are
 * discarded. It listens in a lab's namespace.
 */
export class FakeApiServer implements AsyncDisposable {
  readonly #objects: Readonly<Record<Resource, readonly object[]>>;
  readonly #watchers = new Map<Resource, Set<ServerResponse>>();
  readonly #server: Server;

  private constructor(objects: Readonly<Record<Resource, readonly object[]>>) {
    this.#objects = objects;
    this.#server = createServer((request, response) => this.#answer(request, response));
  }

  static async start(
    namespace: LabNamespace,
    port: number,
    objects: Readonly<Record<Resource, readonly object[]>>,
  ): Promise<FakeApiServer> {
    const api = new FakeApiServer(objects);
    const listening = new Promise((resolve, reject) => api.#server.once("listening", resolve).once("error", reject));
    // Without a host the socket is made at once, while this thread is in the namespace.
    namespace.inside(() => api.#server.listen(port));
    await listening;
    return api;
  }

  /** Reports a changed object to all watchers. */
  modified(resource: Resource, object: object): void {
    for (const response of this.#watchers.get(resource) ?? []) response.write(event("MODIFIED", versioned(object)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  #answer({ method, url = "/" }: IncomingMessage, response: ServerResponse): void {
    const { pathname, searchParams } = new URL(url, "http://api");
    const resource = (["services", "endpointslices", "nodes", "servicecidrs"] as const).find((name) =>
      pathname.split("/").includes(name),
    );
    response.setHeader("content-type", "application/json");
    if (resource === undefined || method !== "GET") {
      response.statusCode = method === "POST" ? 201 : 404;
      response.end(JSON.stringify({ kind: "Status", apiVersion: "v1", status: "Failure", code: response.statusCode }));
    } else if (searchParams.get("watch") === null) {
      this.#list(resource, pathname, response);
    } else {
      this.#watch(resource, searchParams.get("sendInitialEvents") === "true", response);
    }
  }

  #list(resource: Resource, pathname: string, response: ServerResponse): void {
    const items = this.#objects[resource];
    if (!pathname.endsWith(resource)) return void response.end(JSON.stringify(items.map(versioned)[0]));
    const { apiVersion, kind } = kinds[resource];
    response.end(
      JSON.stringify({
        apiVersion,
        kind: `${kind}List`,
        metadata: { resourceVersion: VERSION },
        items: items.map(versioned),
      }),
    );
  }

  #watch(resource: Resource, isWhole: boolean, response: ServerResponse): void {
    const watchers = this.#watchers.get(resource) ?? new Set<ServerResponse>();
    this.#watchers.set(resource, watchers.add(response));
    response.once("close", () => watchers.delete(response));
    response.flushHeaders();
    if (!isWhole) return;
    for (const object of this.#objects[resource]) response.write(event("ADDED", versioned(object)));
    const annotations = { "k8s.io/initial-events-end": "true" };
    response.write(event("BOOKMARK", { ...kinds[resource], metadata: { resourceVersion: VERSION, annotations } }));
  }
}

function event(type: string, object: object): string {
  return `${JSON.stringify({ type, object })}\n`;
}

function versioned(object: object): object {
  const metadata = "metadata" in object && typeof object.metadata === "object" ? object.metadata : {};
  return { ...object, metadata: { ...metadata, resourceVersion: VERSION } };
}

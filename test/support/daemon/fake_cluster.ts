import { Buffer } from "node:buffer";
import { readFileSync, readdirSync } from "node:fs";
import path from "node:path";
import type { ApiResponse, ApiServer, ObjectInput } from "../../../cli/input/cluster/object_input.ts";
import { RESOURCES, WAY_RESOURCES } from "../../../cli/input/cluster/resources.ts";
import { versionsOf } from "../../../policyd/sources/api/resources.ts";
import { readObjects } from "../../../objects/yaml/documents.ts";

/** A Kubernetes object as the API server stores it. */
export type RawObject = Readonly<Record<string, unknown>>;

/**
 * Returns an answer to give instead; undefined lets the server answer. `count` is the number of requests before this
 * one.
 */
export type Fault = (path: string, count: number) => ApiResponse | undefined;

export const SERVER = "https://cluster.test:6443";

/** Returns a server's answer with a JSON body. */
export function answer(status: number, body: unknown, retryAfter?: string): ApiResponse {
  return { status, retryAfter, body: [Buffer.from(JSON.stringify(body))] };
}

/** Returns an API server's answer to a request that it refuses. */
export function statusOf(code: number, message: string, retryAfter?: string): ApiResponse {
  return answer(code, { kind: "Status", apiVersion: "v1", status: "Failure", code, message }, retryAfter);
}

/** Returns a part of a list as the API server sends it: its items omit kind and apiVersion. */
export function listOf(kind: string, apiVersion: string, items: readonly RawObject[], next = ""): unknown {
  const metadata = { resourceVersion: "7", ...(next === "" ? {} : { continue: next }) };
  return {
    kind: `${kind}List`,
    apiVersion,
    metadata,
    items: items.map((item) =>
      Object.fromEntries(Object.entries(item).filter(([key]) => !/^(kind|apiVersion)$/.test(key))),
    ),
  };
}

/** Reads the objects of a directory of YAML files. */
export function objectsIn(directory: string): readonly RawObject[] {
  return readdirSync(directory).flatMap((name) =>
    [...readObjects(readFileSync(path.join(directory, name), "utf8"), name)].map((object) => object as RawObject),
  );
}

/** An API server that holds some objects and lists them in pages of two; it records each request and each wait. */
export class FakeCluster implements ObjectInput, ApiServer {
  readonly name = SERVER;
  readonly asked: string[] = [];
  readonly slept: number[] = [];
  /** The namespace of a kubeconfig's context. */
  namespace = "default";
  /** The API groups that it reports, without those of Kubernetes itself. */
  groups: readonly RawObject[] = [];
  readonly #objects: readonly RawObject[];
  readonly #fault: Fault;

  constructor(objects: readonly RawObject[], fault: Fault = () => undefined) {
    this.#objects = objects;
    this.#fault = fault;
  }

  namespaceOf(): Promise<string> {
    return Promise.resolve(this.namespace);
  }

  connect(): Promise<ApiServer> {
    return Promise.resolve(this);
  }

  sleep(milliseconds: number): Promise<void> {
    this.slept.push(milliseconds);
    return Promise.resolve();
  }

  get(asked: string): Promise<ApiResponse> {
    const fault = this.#fault(asked, this.asked.length);
    this.asked.push(asked);
    return Promise.resolve(fault ?? this.#answer(new URL(asked, SERVER)));
  }

  #answer({ pathname, searchParams }: URL): ApiResponse {
    if (pathname === "/apis") return answer(200, { kind: "APIGroupList", groups: this.groups });
    const resource = [...RESOURCES, ...WAY_RESOURCES].flatMap(versionsOf).find((one) => one.path === pathname);
    if (resource === undefined) return statusOf(404, "the server could not find the requested resource");
    const { kind, apiVersion } = resource;
    // A server returns every object in the version that the request names.
    const all = this.#objects
      .filter((object) => object["kind"] === kind && groupOf(object["apiVersion"]) === groupOf(apiVersion))
      .map((object) => ({ ...object, apiVersion }));
    const from = Number(searchParams.get("continue") ?? 0);
    const to = from + 2;
    return answer(200, listOf(kind, apiVersion, all.slice(from, to), to < all.length ? `${to}` : ""));
  }
}

function groupOf(apiVersion: unknown): string {
  return String(apiVersion).split("/").slice(0, -1).join("/");
}

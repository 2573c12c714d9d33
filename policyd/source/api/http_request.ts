import type { ClientRequest } from "node:http";
import http from "node:http";
import https from "node:https";
import { VERSION } from "../../version.ts";
import type { Credentials } from "./kubeconfig.ts";

/** What a body is, by the method it is sent with. */
const CONTENT_TYPES = { POST: "application/json", PATCH: "application/strategic-merge-patch+json" } as const;

export type WriteMethod = keyof typeof CONTENT_TYPES;

/** The address below which a server has its paths, without a slash at its end. */
export function baseOf(server: URL): string {
  return `${server.origin}${server.pathname.replace(/\/+$/, "")}`;
}

/**
 * A request to the API server, which is yet to be ended. Redirects are not followed: they would take the credentials along.
 *
 * @param program as which it asks
 * @param method any but GET for a body of JSON that it is to be ended with
 */
export function apiRequest(
  { server, options }: Credentials,
  path: string,
  program: string,
  signal?: AbortSignal,
  method: "GET" | WriteMethod = "GET",
): ClientRequest {
  const headers = {
    ...options.headers,
    Accept: "application/json",
    "User-Agent": `${program}/${VERSION}`,
    ...(method === "GET" ? {} : { "Content-Type": CONTENT_TYPES[method] }),
  };
  const { request } = server.protocol === "http:" ? http : https;
  return request(`${baseOf(server)}${path}`, {
    ...options,
    method,
    headers,
    ...(signal === undefined ? {} : { signal }),
  });
}

/** Whether an error's code says that the two ends do not believe each other's certificates. */
export function isOfCertificates(code: string): boolean {
  return /CERT|TLS|SSL|SIGNATURE|ISSUER/.test(code);
}
